package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/sink/guard"
)

// heartbeats sends heartbeats for a guard that is none, with the verdict that it enforces, until ctx ends.
func (w *weir) heartbeats(ctx context.Context, name string, held *atomic.Value) {
	for ctx.Err() == nil {
		list := "[]"
		if v, _ := held.Load().(string); v != "" {
			list = `["` + v + `"]`
		}
		body := fmt.Sprintf(`{"guard":%q,"instance":"1","language":"go","held":%s,"in_flight":0}`, name, list)
		if resp, err := http.Post(w.url+"/v1/guards", "application/json", strings.NewReader(body)); err == nil {
			_ = resp.Body.Close()
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// TestReceiptFills throws the switch on the page. The page shows without a reload which guards have
// confirmed, which were not heard of since, and what became of the call in flight.
func TestReceiptFills(t *testing.T) {
	const token = "admin-0123456789012345678901234567890ab"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	w, b := start(t, "--admin-token-file", file), openTab(t)
	w.story()
	g, err := guard.New(guard.Options{URL: w.url, Source: "shop", Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := g.Begin(t.Context(), guard.Call{Flow: "in-flight", From: "a", To: "b"})
	var held atomic.Value
	beating, silent := context.WithCancel(t.Context())
	defer silent()
	go w.heartbeats(beating, "cash-desk", &held)

	b.open(w.url + "/ui/")
	b.ready("now")
	b.signIn(token)
	b.ready("now")
	press := func(text string) {
		t.Helper()
		button := `[...document.querySelectorAll("dialog[open] button, main button")].findLast(b => b.textContent === ` + quote(text) + ` && !b.disabled)`
		b.until(button + ` !== undefined`)
		eval[bool](b, button+`.click() || true`)
	}
	press("Stop all flows …")
	b.until(`document.querySelector("#act-sure") !== null`)
	eval[bool](b, `(document.querySelector("#act-reason").value = "a runaway bill", document.querySelector("#act-by").value = "ann", document.querySelector("#act-sure").click(), true)`)
	press("Stop all flows")

	receipt := `document.querySelector("section[aria-labelledby=by-hand]")?.innerText`
	shows := func(text string) {
		t.Helper()
		b.until(receipt + `?.includes(` + quote(text) + `)`)
	}
	shows("1 of 2 guards; missing: cash-desk: it does not enforce the order yet; in flight: 0 of 1 ended")
	held.Store(eval[string](b, `fetch("/v1/orders").then(r => r.json()).then(o => o.orders[0].verdict_id)`))
	shows("confirmed by all 2 guards since")
	b.shoot("receipt_confirmed")
	running.Finish(guard.Outcome{})
	shows("in flight: 1 of 1 ended")
	silent()
	shows("1 of 2 guards; missing: cash-desk: not heard of since")
	b.shoot("receipt_silent")
	b.quiet("the receipt")
}
