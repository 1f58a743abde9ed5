package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	axeFile = flag.String("axe", "", "check accessibility by this `FILE`, axe.min.js of axe-core")
	shots   = flag.String("shots", "", "keep screenshots in this `FOLDER`")
)

// browsers are the names of what may be installed.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// tab is one tab of a browser, and what its console complained of.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	faults  []string
	missing int // complaints about a 404 that may still come
}

// unknown announces that the next page asks for an unknown id a number of times. The browser reports a 404 each time,
// sometimes late.
func (b *tab) unknown(path string, times int) {
	if strings.Contains(path, "?id=") {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.missing += times
	}
}

// openTab starts a browser with one tab.
func openTab(t testing.TB) *tab {
	t.Helper()
	path := ""
	for _, name := range browsers {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Fatalf("no browser: install one of %s", strings.Join(browsers, ", "))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900)))
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 900))
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				b.complain(m.String())
			}
		}
	}()
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// scheme is light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a page and waits until it shows its heading.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until(`document.querySelector("main h1") !== null`)
}

// eval is an expression in the page, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for a condition in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
		b.t.Fatalf("%s: %v\n%s\n%v", condition, err, eval[string](b, `document.body.innerText.slice(0, 2000)`), b.complaints())
	}
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing > 0 && strings.Contains(text, "status of 404") {
		b.missing--
		return
	}
	b.faults = append(b.faults, text)
}

func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.faults
	b.faults = nil
	return out
}

// quiet fails when the console complained.
func (b *tab) quiet(where string) {
	b.t.Helper()
	for _, c := range b.complaints() {
		b.t.Errorf("%s: the console says: %s", where, c)
	}
}

func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// shoot keeps a screenshot if one is requested.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// lenient lets scripts of the test into pages whose policy refuses all but their own.
func (b *tab) lenient() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}); err != nil {
		b.t.Fatal(err)
	}
}

// accessible checks the page as it is.
func (b *tab) accessible(where string, axe []byte) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[json.RawMessage](string(axe)+";null")); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range eval[[]struct {
		ID    string
		Help  string
		Nodes []string
	}](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary)})))`) {
		b.t.Errorf("%s: axe: %s: %s\n  %s", where, v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprint("a string has no form: ", err))
	}
	return string(text)
}
