package browser

import (
	"os/exec"
	"strings"
	"testing"
)

// quietBut404 fails when the console of an empty weir's page has an error. The browser itself
// reports one 404 each time that the page of one flow or agent asks for an id that weir does not know.
func (b *tab) quietBut404(path string, loads int) {
	b.t.Helper()
	for _, c := range b.complaints() {
		if loads--; loads < 0 || !strings.Contains(path, "?id=") || !strings.Contains(c, "status of 404") {
			b.t.Errorf("%s on an empty weir: the console says: %s", path, c)
		}
	}
}

// TestFirstHour opens every page on an empty weir before the first event. It then runs the
// command that a page shows, and each page has to show the stop without a reload.
func TestFirstHour(t *testing.T) {
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
			b.open(w.url + p.path)
			b.until(`document.querySelector(".empty pre") !== null`)
			b.shoot("empty_" + strings.Trim(strings.NewReplacer("/", "_", "?id=", "_").Replace(p.path), "_") + "_" + scheme)
		}
		text := eval[string](b, `document.querySelector("main").innerText`)
		if !strings.Contains(text, p.empty) || strings.Contains(text, "…\n") || eval[bool](b, `document.querySelector(".fault:not([hidden])") !== null`) {
			t.Errorf("%s on an empty weir shows:\n%s", p.path, text)
		}
		b.quietBut404(p.path, 2)
		command = eval[string](b, `document.querySelector(".empty pre").textContent`)
	}
	rest := openTab(t)
	for _, path := range []string{"/ui/scenarios", "/ui/limits", "/ui/backtest", "/ui/agent?id=nosuch", "/ui/agents?stuck=1", "/ui/flows?q=nosuch"} {
		rest.open(w.url + path)
		rest.until(`document.querySelector("main").children.length > 1`)
		if eval[bool](rest, `document.querySelector(".fault:not([hidden])") !== null || /undefined|NaN|\[object/.test(document.querySelector("main").innerText)`) {
			t.Errorf("%s on an empty weir shows:\n%s", path, eval[string](rest, `document.querySelector("main").innerText`))
		}
		rest.quietBut404(path, 1)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil || strings.Count(string(out), `"accepted":1`) != 24 {
		t.Fatalf("the command of the page: %v\n%s\n%s", err, command, out)
	}
	for i, p := range filled {
		tabs[i].until(p.full)
		if eval[bool](tabs[i], `document.querySelector(".empty") !== null`) {
			t.Errorf("%s still shows first steps", p.path)
		}
		tabs[i].quiet(p.path + " after the first loop")
		tabs[i].shoot("first_" + strings.Trim(strings.NewReplacer("/", "_", "?id=", "_").Replace(p.path), "_"))
	}
}
