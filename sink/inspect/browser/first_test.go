package browser

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"weir/cmd/weirtest"
)

// TestFirstHour opens every page on an empty weir before the first event. It then runs the
// command that a page shows, and each page has to show the stop without a reload.
func TestFirstHour(t *testing.T) {
	j := weirtest.NewJourney(t, "J1 page", "pages opened before the first event help, then show the stop")
	w := start(t)
	// Each open page waits in a tab of its own.
	filled := []struct{ path, empty, full string }{
		{"/ui/", "No events yet", `[...document.querySelectorAll(".card")].some(c => c.innerText.replace(/\s+/g, " ") === "Stopped now 1") && document.querySelector(".feed").innerText.includes("deny")`},
		{"/ui/flows", "No flows yet", `document.querySelector(".flows tbody").innerText.includes("first-loop") && document.querySelector(".flows tbody").innerText.includes("stopped")`},
		{"/ui/agents", "No agents yet", `document.querySelector(".agents tbody").innerText.includes("agent-1")`},
		{"/ui/flow?id=first-loop", "weir has no event of this flow", `document.querySelector(".why h3") !== null`},
	}
	tabs, command := make([]*tab, len(filled)), ""
	for i, p := range filled {
		b := openTab(t)
		tabs[i] = b
		for _, scheme := range []string{"dark", "light"} {
			b.scheme(scheme)
			b.unknown(p.path, 1)
			b.open(w.url + p.path)
			b.until(`document.querySelector(".empty pre") !== null && ![...document.querySelectorAll(".card dd")].some(d => d.textContent === "…")`)
			b.shoot("empty_" + strings.Trim(strings.NewReplacer("/", "_", "?id=", "_").Replace(p.path), "_") + "_" + scheme)
		}
		text := eval[string](b, `document.querySelector("main").innerText`)
		if !strings.Contains(text, p.empty) || eval[bool](b, `document.querySelector(".fault:not([hidden])") !== null`) {
			t.Errorf("%s on an empty weir shows:\n%s", p.path, text)
		}
		b.quiet(p.path + " on an empty weir")
		command = eval[string](b, `document.querySelector(".empty pre").textContent`)
	}
	rest := openTab(t)
	for _, path := range []string{"/ui/scenarios", "/ui/limits", "/ui/backtest", "/ui/agent?id=nosuch", "/ui/agents?stuck=1", "/ui/flows?q=nosuch"} {
		rest.unknown(path, 1)
		rest.open(w.url + path)
		rest.until(`document.querySelector("main").children.length > 1`)
		if eval[bool](rest, `document.querySelector(".fault:not([hidden])") !== null || /undefined|NaN|\[object/.test(document.querySelector("main").innerText)`) {
			t.Errorf("%s on an empty weir shows:\n%s", path, eval[string](rest, `document.querySelector("main").innerText`))
		}
		rest.quiet(path + " on an empty weir")
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil || strings.Count(string(out), `"accepted":1`) != 24 {
		t.Fatalf("the command of the page: %v\n%s\n%s", err, command, out)
	}
	j.Lines = strings.Count(strings.TrimSpace(command), "\n") + 1
	for i, p := range filled {
		tabs[i].until(p.full)
		if eval[bool](tabs[i], `document.querySelector(".empty") !== null`) {
			t.Errorf("%s still shows first steps", p.path)
		}
		tabs[i].quiet(p.path + " after the first loop")
		tabs[i].shoot("first_" + strings.Trim(strings.NewReplacer("/", "_", "?id=", "_").Replace(p.path), "_"))
	}
	j.Saw("%d pages filled by the command of the page, %d more without a fault; the console is quiet", len(filled), 6)
}

// TestOneStop sends one loop: the first page counts one stop, folds the verdicts of the incident
// into one entry, and shows the value at the stop in red. A narrow window shows the
// three columns that matter.
func TestOneStop(t *testing.T) {
	w, b := start(t), openTab(t)
	w.crew() // an agent that is stuck is no stop
	w.story()
	b.open(w.url + "/ui/")
	b.until(`document.querySelector(".feed > li summary")?.textContent.endsWith("earlier verdicts")`)
	for what, want := range map[string]string{
		`[...document.querySelectorAll(".card")].map(c => c.innerText.replace(/\s+/g, " ")).find(c => c.startsWith("Stops in"))`:                                                                                                                                  "Stops in 5 min 1",
		`String(document.querySelectorAll(".feed > li").length - document.querySelectorAll(".feed .feed > li").length)`:                                                                                                                                           "3",
		`document.querySelector("[aria-labelledby=nearest] tbody tr").cells[2].textContent`:                                                                                                                                                                       "6/6 ping_pong_other",
		`getComputedStyle(document.querySelector("[aria-labelledby=nearest] tbody tr").cells[2].querySelector(".badge.stopped")).color === getComputedStyle(document.querySelector("[aria-labelledby=nearest] tbody tr .badge.stopped")).color ? "red" : "other"`: "red",
	} {
		if got := eval[string](b, what); got != want {
			t.Errorf("%s is %q, want %q", what, got, want)
		}
	}
	b.do(chromedp.EmulateViewport(390, 800))
	for path, want := range map[string]string{"/ui/flows": "Flow Status Nearest limit", "/ui/agents": "Agent State Why"} {
		b.open(w.url + path)
		b.until(`document.querySelectorAll(".flows tbody tr:not(.room)").length > 1`)
		if got := eval[string](b, `[...document.querySelectorAll(".flows thead th")].filter(h => h.offsetWidth > 0).map(h => h.innerText.trim()).join(" ").replaceAll(/[▲▼] ?/g, "").trim()`); got != want {
			t.Errorf("%s shows the columns %q at 390 px, want %q", path, got, want)
		}
		if eval[int](b, `document.querySelector(".scroller").scrollWidth - document.querySelector(".scroller").clientWidth`) > 0 || eval[int](b, `document.documentElement.scrollWidth - innerWidth`) > 0 {
			t.Errorf("%s has to be scrolled sideways at 390 px", path)
		}
		b.shoot("narrow" + strings.ReplaceAll(path, "/", "_"))
	}
	b.quiet("one stop")
}

// TestFirstEvents opens the page of a flow before its first event: it shows the flow while it begins, and its stop,
// without a click.
func TestFirstEvents(t *testing.T) {
	w, b := start(t), openTab(t)
	b.unknown("/ui/flow?id=slow-loop", 2) // it may ask again before the first event
	b.open(w.url + "/ui/flow?id=slow-loop")
	b.until(`document.querySelector(".empty") !== null`)
	pair := func(n int) {
		for range n {
			w.send(w.call("slow-loop", "agent-0", "agent-1"), w.call("slow-loop", "agent-1", "agent-0"))
		}
	}
	pair(1)
	b.until(`document.querySelector("main").innerText.includes("2 events")`)
	pair(11)
	b.until(`document.querySelector(".why h3") !== null`)
	b.quiet("the page of a flow")
}
