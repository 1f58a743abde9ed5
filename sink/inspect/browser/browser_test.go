package browser

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/events"
)

var loadFor = flag.Duration("load", 5*time.Second, "send events for so `LONG` to a live page")

var paths = []struct{ name, path string }{
	{"now", "/ui/"}, {"flows", "/ui/flows"}, {"flow", "/ui/flow?id=checkout-7f3a"}, {"flow_at", "/ui/flow?id=checkout-7f3a&at=9"}, {"honest", "/ui/flow?id=report-11"},
	{"agents", "/ui/agents"}, {"agents_stuck", "/ui/agents?stuck=1"}, {"agent", "/ui/agent?id=planner-3"}, {"scenarios", "/ui/scenarios"}, {"limits", "/ui/limits"}, {"backtest", "/ui/backtest"},
}

// TestPages loads every page in light and in dark: the console is quiet, nothing is wider
// than the window, and axe finds nothing.
func TestPages(t *testing.T) {
	w, b := start(t), openTab(t)
	w.crew()
	w.story()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, p := range paths {
			b.open(w.url + p.path)
			b.ready(p.name)
			b.quiet(p.path)
			b.shoot(p.name + "_" + scheme)
			if eval[bool](b, `/undefined|NaN|\[object/.test(document.querySelector("main").innerText)`) {
				t.Errorf("%s shows a value that it does not have", p.path)
			}
			if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s is %d pixels wider than the window", p.path, wide)
			}
		}
	}
	b.scheme("light")
	b.do(chromedp.EmulateViewport(1200, 740)) // the picture in the README
	b.open(w.url + "/ui/flow?id=checkout-7f3a")
	b.ready("flow")
	b.shoot("readme")
	b.do(chromedp.EmulateViewport(1280, 900))
	if _, err := os.Stat(*axeFile); err != nil {
		t.Logf("*** NOT CHECKED for accessibility: %v; name axe.min.js by -axe ***", err)
		return
	}
	axe, err := os.ReadFile(*axeFile)
	if err != nil {
		t.Fatal(err)
	}
	b.lenient()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, p := range paths {
			b.open(w.url + p.path)
			b.ready(p.name)
			eval[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) || true`)
			b.accessible(p.path+" "+scheme, axe)
		}
	}
}

// ready waits for what a page shows last.
func (b *tab) ready(name string) {
	b.t.Helper()
	switch name {
	case "now":
		b.until(`document.querySelectorAll(".feed li").length > 0 && document.querySelectorAll("tbody tr").length > 1`)
	case "flows":
		b.until(`document.querySelectorAll(".flows tbody tr").length > 3`)
	case "flow", "flow_at", "honest":
		b.until(`document.querySelectorAll(".diagram .step").length > 1 && document.querySelectorAll("tbody th").length > 3`)
	case "agents", "agents_stuck":
		b.until(`document.querySelectorAll(".agents tbody tr:not(.room)").length > 1 && document.querySelectorAll(".timeline li").length > 1`)
	case "agent":
		b.until(`document.querySelectorAll(".facts dt").length > 3 && document.querySelectorAll(".timeline li").length > 0`)
	case "scenarios":
		b.until(`document.querySelectorAll(".diagram .step").length > 3`)
	case "limits":
		b.until(`document.querySelectorAll("tbody tr").length > 5`)
	}
}

// TestStoppedFlowIsNear goes the way of a newcomer: from the address to why a flow was
// stopped.
func TestStoppedFlowIsNear(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/")
	b.ready("now")
	b.shoot("newcomer_1")
	eval[bool](b, `document.querySelector("[aria-labelledby=nearest] tbody a").click() || true`)
	b.until(`document.querySelector(".why h3") !== null`)
	b.shoot("newcomer_2")
	text := eval[string](b, `document.querySelector("main").innerText`)
	for _, want := range []string{"checkout-7f3a", "■ stopped", "What it limits", "Refuses", "Call stack"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the stopped flow does not say %q:\n%s", want, text)
		}
	}
	b.quiet("the way to a stopped flow")
}

// TestStuckAgent goes from the first page to an agent that is stuck, by keyboard, and sees
// that it is not any more.
func TestStuckAgent(t *testing.T) {
	w, b := start(t), openTab(t)
	w.crew()
	w.story()
	b.open(w.url + "/")
	b.until(`document.querySelector("a[href='/ui/agents?stuck=1']")?.textContent === "2"`)
	eval[bool](b, `document.querySelector("a[href='/ui/agents?stuck=1']").click() || true`)
	b.ready("agents")
	if got := eval[string](b, `[...document.querySelectorAll(".agents tbody tr:not(.room)")].map(r => r.cells[0].textContent + ":" + r.cells[1].innerText.trim() + ":" + r.cells[2].textContent).join(" ")`); got != "planner-3:■ stuck:critical_margin_timeout certain scout-1:▲ potentially stuck:activity_timeout may be" {
		t.Errorf("stuck are %q", got)
	}
	eval[bool](b, `document.querySelector("[aria-label='Notes with the tag']").focus() || true`)
	b.keys("keys\r")
	b.until(`document.querySelectorAll(".timeline li").length === 1 && location.search.includes("tag=keys")`)
	b.keys("\u001b")
	b.until(`document.activeElement === document.body`)
	b.keys("j")
	b.until(`document.querySelector(".selected") !== null`)
	b.keys("\r")
	b.ready("agent")
	text := eval[string](b, `document.querySelector("main").innerText`)
	for _, want := range []string{"Agent planner-3", "■ stuck", "critical_margin_timeout", "margin critical", "does not answer", "Stuck agent detected: critical_margin_timeout", "Verdicts", "Copy weir agents rescue"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the stuck agent does not say %q:\n%s", want, text)
		}
	}
	b.shoot("stuck_agent")
	w.send(w.status("planner-3", "comfortable", 0))
	b.until(`!document.querySelector("main").innerText.includes("■ stuck") && document.querySelector("main").innerText.includes("✓ active")`)
	b.keys("\u001b")
	b.until(`location.pathname === "/ui/agents"`)
	b.until(`document.querySelectorAll(".agents tbody tr:not(.room)").length === 1`)
	b.quiet("the way to a stuck agent")
}

// TestKeyboard goes through the pages without a pointer.
func TestKeyboard(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/flows")
	b.ready("flows")
	// As a person's keyboard says it: the driver would type the sign all the same.
	eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true})) || true`)
	b.until(`document.activeElement.type === "search"`)
	b.keys("check")
	b.until(`document.querySelector("#count").textContent.startsWith("1 of") && location.search.includes("q=check")`)
	b.keys("\u001b")
	b.until(`document.activeElement === document.body`)
	b.keys("j")
	b.until(`document.querySelector(".selected") !== null`)
	b.keys("\r")
	b.until(`document.querySelector(".why h3") !== null`)
	last := eval[int](b, `Number(document.querySelector("#at").value)`)
	b.keys("k")
	b.until(fmt.Sprintf(`location.search.includes("at=%d") && document.querySelector("main").innerText.includes("as of event %d")`, last-1, last-1))
	eval[bool](b, `document.querySelector(".cycle")?.focus() || true`)
	before := eval[int](b, `document.querySelectorAll(".diagram .step").length`)
	b.keys("\r")
	b.until(fmt.Sprintf(`document.querySelectorAll(".diagram .step").length > %d`, before))
	b.shoot("cycle_open")
	b.keys("\u001b")
	b.until(`location.pathname === "/ui/flows"`)
	b.quiet("the way by keyboard")
}

// hostile are names that try to be more than names.
var hostile = []string{"<script>document.title='owned'</script>", "\"><img src=x onerror=\"document.title='owned'\">", "gnp.\u202eexe\u2066 \u200bx", "..", "javascript:document.title='owned'", "a/../../b?c#d%00", "'; DROP -- $(reboot) `x`", strings.Repeat("w", 250)}

func TestHostileNames(t *testing.T) {
	w, b := start(t), openTab(t)
	var evs []events.Event
	for _, h := range hostile { // agents that no flow has seen at work
		evs = append(evs, w.status(h+"!", "critical", 8*time.Minute))
	}
	for _, h := range hostile {
		ev := w.call(h, "", h)
		ev.TurnID = h
		evs = append(evs, ev)
		evs = append(evs, w.tool(h, h, h, 1)...)
		for range 6 {
			evs = append(evs, w.call(h, h, h+"2"), w.call(h, h+"2", h))
		}
	}
	w.send(evs...)
	for _, h := range hostile {
		w.note(h+"!", h, h, strings.ToValidUTF8(h[:min(len(h), 60)], ""))
	}
	see := func(where string) {
		t.Helper()
		b.until(`document.querySelector("main h1") !== null`)
		if title := eval[string](b, `document.title`); title == "owned" {
			t.Errorf("%s: a name was run as a script", where)
		}
		if eval[bool](b, `/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.textContent) || document.querySelector("main script, main img") !== null`) {
			t.Errorf("%s: a name became more than text", where)
		}
		if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%s: the page is %d pixels wider than the window", where, wide)
		}
		b.quiet(where)
	}
	b.open(w.url + "/ui/")
	b.ready("now")
	see("now")
	b.open(w.url + "/ui/flows")
	b.until(fmt.Sprintf(`document.querySelector("#count").textContent.startsWith("%d of")`, len(hostile)))
	see("flows")
	b.shoot("hostile_flows")
	b.open(w.url + "/ui/agents?stuck=1")
	b.until(fmt.Sprintf(`document.querySelector("#count").textContent.startsWith("%d agents stuck")`, len(hostile)))
	see("agents")
	b.shoot("hostile_agents")
	for _, h := range hostile {
		b.open(w.url + "/ui/agent?id=" + url.QueryEscape(h+"!"))
		b.ready("agent")
		see("agent " + h)
	}
	for i, h := range hostile {
		b.open(w.url + "/ui/flow?id=" + url.QueryEscape(h))
		b.ready("flow")
		see("flow " + h)
		b.shoot(fmt.Sprint("hostile_", i))
		eval[bool](b, `document.querySelector("details.words").open = true`)
		b.until(`document.querySelectorAll(".words li").length > 3`)
		see("list of " + h)
	}
	// An id that weir would never take is an id in the address all the same.
	long := strings.Repeat("<b>x", 2500)
	for _, path := range []string{"/ui/flows?q=", "/ui/flows?rule=", "/ui/agents?q=", "/ui/agents?tag=", "/ui/scenarios?case=", "/ui/limits?q="} {
		b.open(w.url + path + long)
		see(path + " with 10,000 characters")
	}
	b.do(chromedp.Navigate(w.url + "/ui/flow?id=" + strings.Repeat("x", 10_000)))
	b.until(`document.querySelector(".fault") !== null`)
	if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		t.Errorf("an id of 10,000 characters makes the page %d pixels wider than the window", wide)
	}
	b.shoot("hostile_long")
}

// TestLongFlow draws a flow of a thousand different calls and prints how long it takes.
func TestLongFlow(t *testing.T) {
	w, b := start(t), openTab(t)
	var evs []events.Event
	for i := range 1000 {
		ev := w.call("long", fmt.Sprint("agent", i%7), fmt.Sprint("agent", (i*i+1)%8))
		ev.HadWork = events.Yes
		evs = append(evs, ev)
	}
	w.send(evs...)
	b.open(w.url + "/ui/flow?id=long")
	b.ready("flow")
	t.Logf("a flow of 1,000 calls: drawn in %.0f ms, %d rows of steps", eval[float64](b, `performance.getEntriesByName("diagram")[0].duration`), eval[int](b, `document.querySelectorAll(".diagram .step").length`))
	t.Logf("an event back, folded again on the server and shown: %.0f ms", eval[float64](b, `new Promise(done => {
		const begun = performance.now();
		new MutationObserver(() => document.querySelector("main").innerText.includes("as of event 500") && done(performance.now() - begun)).observe(document.querySelector("main"), {subtree: true, childList: true});
		const slider = document.querySelector("#at");
		slider.value = 500;
		slider.dispatchEvent(new Event("input"));
	})`))
	b.shoot("long")
	b.quiet("a long flow")
}

// TestManyFlows shows 5,000 flows, of which only a few rows are in the document.
func TestManyFlows(t *testing.T) {
	w, b := start(t), openTab(t)
	var evs []events.Event
	for i := range 5000 {
		evs = append(evs, w.call(fmt.Sprintf("flow-%04d", i), "a", "b"))
	}
	w.send(evs...)
	b.open(w.url + "/ui/flows?sort=flow&up=1")
	b.until(`document.querySelector(".flows")?.getAttribute("aria-rowcount") === "5001"`)
	if rows := eval[int](b, `document.querySelectorAll(".flows tbody tr").length`); rows > 80 {
		t.Errorf("%d rows are in the document", rows)
	}
	eval[bool](b, `(document.querySelector(".scroller").scrollTop = 1e7) > 0`)
	b.until(`document.querySelector(".flows tbody").innerText.includes("flow-4999")`)
	// It stays live: a new event shows in its row.
	w.send(w.call("flow-4999", "b", "c"))
	b.until(`[...document.querySelectorAll(".flows tbody tr")].some(r => r.innerText.includes("flow-4999") && r.cells[5].textContent === "2")`)
	b.shoot("many")
	b.quiet("many flows")
}

// TestStoppedNow counts what is stopped and what is held, of more flows than the page shows.
func TestStoppedNow(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("rules: {max_tool_calls: {max: 3, action: hold}, max_unique_sessions: {max: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, b := start(t, "--limits", limits), openTab(t)
	var evs []events.Event
	for i := range 1200 {
		evs = append(evs, w.call(fmt.Sprint("flow-", i), "a", "b"))
	}
	for i := range 8 {
		evs = append(evs, w.tool("flow-held", "a", "look", uint64(i))...)
	}
	w.send(evs...)
	b.open(w.url + "/ui/")
	b.until(`[...document.querySelectorAll(".card")].some(c => c.innerText.replace(/\s+/g, " ") === "Stopped now 1,200 and 1 held")`)
	eval[bool](b, `[...document.querySelectorAll(".card a")].find(a => a.textContent === "1 held").click() ?? true`)
	b.until(`location.search.includes("status=held") && document.querySelector("main").innerText.includes("1 of 1,201 flows")`)
	b.quiet("what is held")
}

// TestLiveUnderLoad sends events as fast as 2,000 a second while the page of what
// happens now is open, and prints the gaps between its frames.
func TestLiveUnderLoad(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/")
	b.ready("now")
	eval[bool](b, `{ let last = performance.now(); window.gaps = []; const frame = now => { gaps.push(now - last); last = now; requestAnimationFrame(frame); }; requestAnimationFrame(frame); true }`)
	begun, sent := time.Now(), 0
	for tick := time.NewTicker(100 * time.Millisecond); time.Since(begun) < *loadFor; sent += 200 {
		<-tick.C
		var evs []events.Event
		for i := range 200 {
			flow := fmt.Sprintf("load-%d", (sent+i)/20)
			evs = append(evs, w.call(flow, fmt.Sprint("a", i%2), fmt.Sprint("a", (i+1)%2)))
		}
		w.send(evs...)
	}
	t.Logf("%d events in %.1f s", sent, time.Since(begun).Seconds())
	t.Log(eval[string](b, `gaps.sort((x, y) => x - y), "frames " + gaps.length + ", gap in ms: median " + gaps[gaps.length >> 1].toFixed(0) + ", p99 " + gaps[Math.floor(gaps.length * 0.99)].toFixed(0) + ", longest " + gaps.at(-1).toFixed(0)`))
	if lines := eval[int](b, `document.querySelectorAll(".feed li").length`); lines > 100 {
		t.Errorf("the feed has %d lines", lines)
	}
	b.shoot("load")
	b.quiet("the live page under load")
}

// TestOvertakenAnswer chooses a scenario, holds its answer back, and chooses another one.
func TestOvertakenAnswer(t *testing.T) {
	w, b := start(t), openTab(t)
	b.open(w.url + "/ui/scenarios")
	b.until(`document.querySelector("#limits")?.value !== ""`)
	const choose = `{ const s = document.querySelector("#case"); s.selectedIndex = %d; s.dispatchEvent(new Event("change")); true }`
	eval[bool](b, `{ const real = window.fetch; let first = true; window.late = 0;
		window.fetch = (...a) => first && String(a[0]?.url ?? a[0]).includes("/play")
			? (first = false, real(...a).then((r) => new Promise((go) => { window.release = () => go(r); })))
			: real(...a); true }`)
	eval[bool](b, fmt.Sprintf(choose, 1))
	eval[bool](b, fmt.Sprintf(choose, 2))
	b.until(`window.release && document.querySelector("#limits").value !== ""`)
	want := eval[string](b, `document.querySelector("#limits").value + document.querySelector("main").innerText`)
	eval[bool](b, `window.release(); setTimeout(() => { window.late = 1 }, 200); true`)
	b.until(`window.late === 1`)
	if got := eval[string](b, `document.querySelector("#limits").value + document.querySelector("main").innerText`); got != want {
		t.Errorf("an answer that was overtaken is shown:\n%s\nwant\n%s", got, want)
	}
}

// TestOtherLimits plays a scenario and a log by limits that were changed in the page.
func TestOtherLimits(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/scenarios?q=chain+of+six")
	b.until(`document.querySelector("#case option") !== null`)
	eval[bool](b, `{ const s = document.querySelector("#case"); s.selectedIndex = 0; s.dispatchEvent(new Event("change")); true }`)
	b.until(`document.querySelector("#limits").value.includes("max_stack_depth: {warn: off, max: 5}") && document.querySelector("main").innerText.includes("As the case expects")`)
	eval[bool](b, `{ const l = document.querySelector("#limits"); l.value = l.value.replace("max_stack_depth: {warn: off, max: 5}", "max_stack_depth: {warn: off, max: 9}"); [...document.querySelectorAll("button")].find(b => b.textContent === "Play it").click(); true }`)
	b.until(`document.querySelector("main").innerText.includes("Differs from what the case expects")`)
	eval[bool](b, `{ document.querySelector("#limits").value = "rules: 1"; [...document.querySelectorAll("button")].find(b => b.textContent === "Play it").click(); true }`)
	b.until(`document.querySelector(".fault:not([hidden])")?.textContent.includes("rules")`)
	_ = b.complaints() // the browser logs the answer that refuses

	b.open(w.url + "/ui/backtest")
	eval[bool](b, `fetch("/v1/flows/checkout-7f3a/events").then(a => a.text()).then(t => {
		document.querySelector("#log").value = t;
		document.querySelector("#b").value = "profile: none";
		[...document.querySelectorAll("button")].find(b => b.textContent === "Compare").click();
		return true;
	})`)
	b.until(`document.querySelector("main").innerText.includes("1 of 1 flows differ") && document.querySelector("main").innerText.includes("ping_pong_other at call")`)
	b.quiet("backtest")
}

// signIn signs the browser in by the button in the header.
func (b *tab) signIn(token string) {
	b.t.Helper()
	b.until(`document.querySelector("#account button")?.textContent === "Sign in"`)
	eval[bool](b, `document.querySelector("#account button").click() || true`)
	b.until(`document.activeElement.id === "token"`)
	b.keys(token + "\r")
	b.until(`document.querySelector("dialog") === null && document.querySelector("#account button")?.textContent === "Sign out" && document.querySelector("main h1") !== null`)
}

// TestActs stops, releases and grants from the page of a flow. Buttons are disabled with the
// reason until the browser signs in; one sign-in lasts through a reload; the log has the reason;
// and scripts cannot read what the browser is signed in with.
func TestActs(t *testing.T) {
	const token = "admin-0123456789012345678901234567890ab"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	w, b := start(t, "--admin-token-file", file, "--state", state), openTab(t)
	w.story()
	press := func(text string) {
		t.Helper()
		if !eval[bool](b, `{ const x = [...document.querySelectorAll("dialog[open] button, main > .bar button, section[aria-labelledby=by-hand] button")].findLast(b => b.textContent === `+quote(text)+` && !b.disabled); x?.click(); x !== undefined }`) {
			t.Fatalf("there is no button %q that is enabled", text)
		}
	}
	fill := func(fields ...string) {
		t.Helper()
		for i := 0; i < len(fields); i += 2 {
			eval[bool](b, `(document.querySelector("#act-`+fields[i]+`").value = `+quote(fields[i+1])+`) !== null`)
		}
	}
	disabled := func(why string) {
		t.Helper()
		b.open(w.url + "/ui/flow?id=report-11")
		b.ready("honest")
		if got := eval[string](b, `[...document.querySelectorAll("main > .bar button:disabled")].map(x => x.textContent + x.title).join("|") + document.querySelector(".reason").textContent`); !strings.Contains(got, "Stop …"+why+"|Release …"+why) || strings.Count(got, why) != 4 {
			t.Errorf("buttons that are disabled because of %q: %s", why, got)
		}
	}
	disabled("sign in with a token that may operate")
	b.shoot("act_disabled")
	eval[bool](b, `document.querySelector("#account button").click() || true`)
	b.until(`document.activeElement.id === "token"`)
	b.shoot("signin")
	b.keys("wrong\r")
	b.until(`document.querySelector("dialog .fault:not([hidden])")?.textContent.includes("does not know this token")`)
	_ = b.complaints() // the browser logs the answer that refuses
	press("Cancel")
	b.signIn(token)
	b.do(chromedp.Reload())
	b.ready("honest")
	press("Stop …")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.shoot("act_stop")
	if axe, err := os.ReadFile(*axeFile); err == nil {
		b.lenient()
		b.accessible("the dialog", axe)
	}
	press("Stop") // without a reason nothing is sent
	fill("reason", "it writes to the wrong customer", "by", "ann")
	press("Stop")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("■ stopped")`)
	if !strings.Contains(eval[string](b, `document.querySelector("main").innerText`), "it writes to the wrong customer") {
		t.Error("the page does not say why the flow was stopped")
	}
	b.shoot("act_stopped")

	press("Release …")
	fill("reason", "the customer was told", "by", "ann")
	press("Release")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("Released by an operator until")`)
	if eval[bool](b, `[location.href, JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.body.innerHTML].some(s => s.includes("`+token+`")) || document.cookie !== ""`) {
		t.Error("scripts can read what the browser is signed in with")
	}

	// The keys of the page are not those of the dialog, and Escape leaves it.
	before := eval[string](b, `location.href`)
	press("Grant more …")
	b.keys("\u001b")
	b.until(`document.querySelector("dialog") === null`)
	if after := eval[string](b, `location.href`); after != before {
		t.Errorf("Escape in the dialog went from %s to %s", before, after)
	}
	press("Grant more …")
	fill("calls", "7", "reason", "one more round", "by", "ann")
	press("Grant more")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("107")`)

	// A mark is kept where weir backtest --marks reads it.
	b.open(w.url + "/ui/flow?id=checkout-7f3a")
	b.ready("flow")
	press("Mark this stop wrong …")
	fill("reason", "it waited for a review", "by", "ann")
	press("Mark wrong")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("Marked wrong by ann: it waited for a review")`)
	if got, err := os.ReadFile(filepath.Join(state, "review.jsonl")); err != nil || !strings.HasPrefix(string(got), `{"flow":"checkout-7f3a","mark":"wrong"`) {
		t.Errorf("kept is %q, %v", got, err)
	}

	// The brake names what happens, and needs to be confirmed.
	b.open(w.url + "/ui/")
	b.ready("now")
	press("Stop all flows …")
	b.until(`document.querySelector("dialog[open]")?.innerText.includes("every call from now on")`)
	b.shoot("act_stop_all")
	fill("reason", "the provider is down", "by", "ann")
	press("Stop all flows") // nothing is sent without the confirmation
	if eval[bool](b, `document.querySelector("dialog") === null`) {
		t.Error("the brake needs no confirmation")
	}
	eval[bool](b, `document.querySelector("#act-sure").click() || true`)
	press("Stop all flows")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("the provider is down")`)
	press("Release …")
	fill("reason", "the provider is back", "by", "ann")
	press("Release")
	b.until(`document.querySelector("dialog") === null && !document.querySelector("main").innerText.includes("Stopped by hand")`)
	press("Stop a scope …")
	b.until(`document.querySelector("dialog[open]") !== null`)
	fill("value", "planner-*", "except", "tool:ls", "reason", "it pays twice", "by", "ann")
	press("Stop")
	b.until(`document.querySelector("dialog") === null && document.querySelector("main").innerText.includes("agent:planner-* except tool:ls")`)
	b.open(w.url + "/ui/flow?id=report-11")
	b.ready("honest")
	eval[bool](b, `document.querySelector("#account button").click() || true`)
	b.until(`document.querySelector(".reason")?.textContent.includes("sign in with a token that may operate")`)
	b.quiet("acts")

	// Without a token file the page says what to do.
	w = start(t)
	w.story()
	disabled("weir was started without an admin token: start it with --admin-token-file or an access file")
	b.quiet("without a token")
}

// TestAgentsOfAnySource lists agents that only flows name, and leads on to their flows.
func TestAgentsOfAnySource(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/agents")
	b.until(`["planner", "reviewer", "writer", "editor"].every(a => document.querySelector(".agents tbody")?.innerText.includes(a))`)
	eval[bool](b, `[...document.querySelectorAll(".agents tbody a")].find(a => a.textContent === "editor").click() || true`)
	b.until(`document.querySelector(".flows tbody")?.innerText.includes("report-11") || document.querySelector("main").innerText.includes("does not watch this agent")`)
	b.quiet("agents that only flows name")
	b.open(w.url + "/ui/agent?id=nobody")
	b.until(`document.querySelector("main a[href='/ui/flows?q=nobody']") !== null`)
}

// TestFiltersStay searches by the name of an agent, goes to a flow and back, and loads the
// page again: the same rows are there.
func TestFiltersStay(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/flows")
	b.ready("flows")
	eval[bool](b, `{ const s = document.querySelector("input[type=search]"); s.value = "EDITOR"; s.dispatchEvent(new Event("input")); true }`)
	one := `document.querySelector("#count")?.textContent.startsWith("1 of 2") && location.search.includes("q=EDITOR") && document.querySelector(".flows tbody tr:not(.room)")?.innerText.includes("report-11")`
	b.until(one)
	eval[bool](b, `{ const s = document.querySelector("[aria-label='Filter by status']"); s.value = "ok"; s.dispatchEvent(new Event("change")); true }`)
	eval[bool](b, `document.querySelector(".flows tbody a").click() || true`)
	b.ready("honest")
	text := eval[string](b, `document.querySelector("main").innerText`)
	for _, want := range []string{"writer, editor", "Sources\nbrowser"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the flow does not say %q:\n%s", want, text)
		}
	}
	eval[bool](b, `history.back() || true`)
	b.until(one)
	b.do(chromedp.Reload())
	b.until(one)
	if got := eval[string](b, `document.querySelector("[aria-label='Filter by status']").value + " " + document.querySelector("input[type=search]").value`); got != "ok EDITOR" {
		t.Errorf("after loading again the filters are %q", got)
	}
	b.quiet("filters")
}

// TestBacktest tries limits on files that are longer than any other body, and on the log
// of weir. A person's mark on a stop counts in the next comparison, and is saved as a file.
func TestBacktest(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	b.open(w.url + "/ui/backtest")
	b.until(`document.querySelector("#a")?.value.includes("profile")`)
	compare := `[...document.querySelectorAll("button")].find(b => b.textContent === "Compare").click()`
	eval[bool](b, `fetch("/v1/flows/checkout-7f3a/events").then(a => a.text()).then(t => {
		const files = new DataTransfer();
		for (let n = 0, size = 0; size < 20e6; n++) {
			const one = Array.from({length: 500}, (_, i) => t.replaceAll("checkout-7f3a", "f-" + n + "-" + (i % 50)).replaceAll('"id":"', '"id":"' + i + "-")).join("");
			size += one.length;
			files.items.add(new File([one], n + ".jsonl"));
		}
		files.items.add(new File(["no log at all"], "notes.txt"));
		document.querySelector("#file").files = files.files;
		document.querySelector("#b").value = "profile: none";
		`+compare+`;
		return true;
	})`)
	b.until(`/[0-9,]+ of [0-9,]+ flows differ/.test(document.querySelector("main").innerText) && document.querySelector("main").innerText.includes("skipped: unknown format")`)
	b.quiet("a long log")

	b.open(w.url + "/ui/backtest?since=0s")
	b.until(`document.querySelector("#b")?.value.includes("profile") && document.querySelector("#since").value === "0s"`)
	eval[bool](b, `{ document.querySelector("#a").value = "profile: none"; `+compare+`; true }`)
	b.until(`document.querySelector("main").innerText.includes("1 of 2 flows differ")`)
	eval[bool](b, `document.querySelector("[aria-label='the stop of checkout-7f3a is wrong']").click() || true`)
	b.until(`document.querySelector("[aria-label='the stop of checkout-7f3a is wrong']").getAttribute("aria-pressed") === "true"`)
	b.shoot("backtest_done")
	if axe, err := os.ReadFile(*axeFile); err == nil {
		b.lenient()
		b.accessible("a backtest", axe)
	}
	saved := eval[string](b, `new Promise(done => {
		const make = URL.createObjectURL;
		URL.createObjectURL = blob => (blob.text().then(done), make.call(URL, blob));
		[...document.querySelectorAll("button")].find(b => b.textContent === "Save review.jsonl").click();
	})`)
	if !strings.HasPrefix(saved, `{"flow":"checkout-7f3a","mark":"wrong"`) {
		t.Errorf("saved is %q", saved)
	}
	eval[bool](b, `(`+compare+`, true)`)
	b.until(`document.querySelector(".fault:not([hidden])")?.textContent.includes("stops flows that are marked wrong: checkout-7f3a")`)
	b.quiet("backtest")
}

// TestToken shows that a page which needs a token asks for it, goes on, and asks again after the
// user has signed out.
func TestToken(t *testing.T) {
	const token = "browser-0123456789012345678901234567890"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(filepath.Dir(file), "access.yaml")
	if err := os.WriteFile(access, []byte("eve: {token-file: token, roles: observe}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, b := start(t, "--access-file", access), openTab(t)
	b.open(w.url + "/ui/scenarios")
	b.until(`document.activeElement.id === "token"`)
	b.shoot("token")
	b.keys(token + "\r")
	b.until(`document.querySelectorAll(".diagram .step").length > 1 && document.querySelector("#account").innerText.includes("eve")`)
	b.do(chromedp.Reload())
	b.until(`document.querySelectorAll(".diagram .step").length > 1`)
	eval[bool](b, `[...document.querySelectorAll("#account button")].find(x => x.textContent === "Sign out").click() || true`)
	b.until(`document.activeElement.id === "token" && document.querySelectorAll("#token").length === 1`)
}

// TestLinksFromMetrics opens what panels and exemplars link to.
func TestLinksFromMetrics(t *testing.T) {
	w, b := start(t), openTab(t)
	w.story()
	now := time.Now().UnixMilli()
	f := func(rule string, from, to int64, want string) {
		t.Helper()
		b.open(fmt.Sprintf("%s/ui/flows?rule=%s&from=%d&to=%d", w.url, rule, from, to))
		b.until(fmt.Sprintf(`document.querySelector("#count").textContent.startsWith(%q)`, want))
	}
	f("a2a_ping_pong", now-60_000, now+60_000, "1 of 2")
	f("ping_pong_other", now-60_000, now+60_000, "1 of 2")
	f("max_cost_exceeded", now-60_000, now+60_000, "0 of 2")
	f("a2a_ping_pong", now-120_000, now-60_000, "0 of 2")
	b.open(w.url + "/ui/flows/by-key/500b3206de69eee4") // xxhash64 of the id
	b.until(`location.search === "?id=checkout-7f3a" && document.querySelector(".why h3") !== null`)
	b.quiet("links from metrics")
}
