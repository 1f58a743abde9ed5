package inspect_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rulebook"
	"weir/analyzer/scenario"
	"weir/events"
	"weir/sink/inspect"
)

// firstLoad is how many bytes a browser may have to fetch before it shows a page.
const firstLoad = 60_000

func TestFirstLoadIsSmall(t *testing.T) {
	p, err := inspect.NewPages("/ui/")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	get := func(path, tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("If-None-Match", tag)
		p.ServeHTTP(w, r)
		return w
	}
	names := []string{"", "flows?rule=x", "flow?id=%3Cscript%3E", "assets/icon.svg", "assets/style.css"}
	for _, module := range []string{"app", "dom", "api", "now", "flows", "flow", "why", "diagram", "scenarios", "limits", "backtest", "agents", "agent", "budgets", "costs", "sheet", "bykey", "act"} {
		names = append(names, "assets/"+module+".js")
	}
	for _, name := range names {
		w := get("/ui/"+name, "")
		if w.Code != 200 || w.Header().Get("Content-Security-Policy") != inspect.Policy || w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		sum += w.Body.Len()
		if again := get("/ui/"+name, w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s: sent again: %d", name, again.Code)
		}
	}
	t.Logf("first load: %d bytes of %d", sum, firstLoad)
	if sum > firstLoad {
		t.Errorf("the first load is %d bytes, more than %d", sum, firstLoad)
	}
	if w := get("/ui/assets/index.html", ""); w.Code != 404 {
		t.Errorf("the document is an asset, too: %d", w.Code)
	}
}

// TestManyAskForAPageFirst has many ask at one time for a page that is not packed yet: each gets all of it.
func TestManyAskForAPageFirst(t *testing.T) {
	p, err := inspect.NewPages("/ui/")
	if err != nil {
		t.Fatal(err)
	}
	get := func(encoding string) []byte {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/ui/", nil)
		r.Header.Set("Accept-Encoding", encoding)
		p.ServeHTTP(w, r)
		return w.Body.Bytes()
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			z, err := gzip.NewReader(bytes.NewReader(get("gzip")))
			if err != nil {
				t.Error(err)
				return
			}
			if body, err := io.ReadAll(z); err != nil || !bytes.Equal(body, get("identity")) {
				t.Errorf("%d bytes that differ from the page, %v", len(body), err)
			}
		})
	}
	all.Wait()
}

// TestTimelineSaysWhatTheRuleBookSays holds the timeline against the runner of the rule book: it
// must give the same verdicts at the same events, in every case of one flow.
func TestTimelineSaysWhatTheRuleBookSays(t *testing.T) {
	book, err := inspect.Scenarios(rulebook.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range book {
		cases, err := scenario.Parse(s.File, []byte(s.Text))
		if err != nil || len(cases) != 1 {
			t.Fatalf("%s:%d: %d cases, %v", s.File, s.Line, len(cases), err)
		}
		c := &cases[0]
		l := c.Limits(analyzer.Balanced())
		out := c.Run(l)
		if len(out.Flows) != 1 || len(out.Agents) > 0 { // deadlines of others fire in between
			continue
		}
		timeline := inspect.Fold(l, c.Events(), c.End())
		var want, got []string
		for i := range out.Said {
			if v := &out.Said[i].Verdict; !out.Said[i].Ask {
				want = append(want, v.ID+" "+string(v.Action)+" "+string(v.Reason))
			}
		}
		for i := range timeline.Said {
			if v := &timeline.Said[i].Verdict; !timeline.Said[i].Ask {
				got = append(got, v.ID+" "+string(v.Action)+" "+string(v.Reason))
			}
		}
		if a, b := strings.Join(want, "\n"), strings.Join(got, "\n"); a != b {
			t.Errorf("%s:%d: %s\nwant\n%s\ngot\n%s", s.File, s.Line, s.Title, a, b)
		}
		key, every := out.Flows[0].Key, 1
		if testing.Short() { // each view folds all events before it
			every = max(1, len(timeline.Steps)/4)
		}
		for at := 0; at <= len(timeline.Steps); at += every {
			if _, ok := inspect.ViewAt(l, c.Events(), key, at); ok != (at > 0) {
				t.Errorf("%s:%d: a view after %d events: %v", s.File, s.Line, at, ok)
			}
		}
	}
}

// TestFlowTestPlaysTheSame writes every case of the rule book as events, those as a case
// again, and compares the verdicts on both. It counts cases whose point the language of recorded
// events cannot carry.
func TestFlowTestPlaysTheSame(t *testing.T) {
	book, err := inspect.Scenarios(rulebook.Files)
	if err != nil {
		t.Fatal(err)
	}
	same, lossy := 0, 0
	for _, s := range book {
		cases, err := scenario.Parse(s.File, []byte(s.Text))
		if err != nil {
			t.Fatal(err)
		}
		c := &cases[0]
		l := c.Limits(analyzer.Balanced())
		out := c.Run(l)
		if len(out.Flows) != 1 || out.Flows[0].Key != "main" {
			continue
		}
		text, err := inspect.FlowTest(c.Title(), l, c.Events())
		if err != nil {
			t.Errorf("%s:%d: %v", s.File, s.Line, err)
			continue
		}
		again, err := scenario.Parse("again", []byte(text))
		if err != nil || len(again) != 1 {
			t.Errorf("%s:%d: %d cases, %v\n%s", s.File, s.Line, len(again), err, text)
			continue
		}
		played := again[0].Run(again[0].Limits(l))
		if strings.Contains(text, "left out") || strings.Contains(s.Text, "dup") || strings.Contains(s.Text, "source=") || strings.Contains(s.Text, "corr=") || strings.Contains(s.Text, "memory=") || strings.Contains(s.Text, "+") {
			lossy++
			continue
		}
		same++
		if a, b := reasons(out), reasons(played); a != b {
			t.Errorf("%s:%d: %s\nwas\n%s\nis\n%s\n%s", s.File, s.Line, s.Title, a, b, text)
		}
	}
	t.Logf("%d cases play the same; %d hold what recorded events cannot say", same, lossy)
	if same < 150 {
		t.Errorf("only %d cases were compared", same)
	}
}

func reasons(o scenario.Outcome) string {
	var b strings.Builder
	for i := range o.Said {
		b.WriteString(string(o.Said[i].Verdict.Action) + " " + string(o.Said[i].Verdict.Reason) + "\n")
	}
	return b.String()
}

func TestFlowTestOfHostileNames(t *testing.T) {
	l := limitfile.Default()
	names := []string{"<script>alert(1)</script>", "\u202egnp.exe", "a\u2028b", "---- ", "\"quoted\" [x=y]", strings.Repeat("x", 200), "-", "#"}
	var evs []events.Event
	for i, n := range names {
		ev := events.Event{ID: n + "-", Time: events.Stamp(1_767_225_600_000 + i*1500), Kind: events.AgentCall, CorrelationID: n,
			From: events.Party{Session: n}, To: events.Party{Session: n + "2"}, TurnID: n, TaskID: n}
		evs = append(evs, ev)
		ev.Kind, ev.Tool.Name, ev.ErrorType = events.ToolResult, n, n
		evs = append(evs, ev)
	}
	text, err := inspect.FlowTest(names[1]+names[2], l, evs)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(text, '\u202e') {
		t.Errorf("a sign that turns the direction of text came through:\n%s", text)
	}
}

func TestPlayRefuses(t *testing.T) {
	f := func(text, limits, want string) {
		t.Helper()
		_, err := inspect.Play(text, limits, limitfile.Default())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Play: %v, want %s", err, want)
		}
	}
	f("", "", "not one case")
	f("# a\n@a\n----\n\n# b\n@a\n----\n", "", "not one case")
	f("@a ->\n----\n", "", "scenario:1")
	f("@a\n----\n", "profile: nobody\n", "nobody")
	f(strings.Repeat(" ", inspect.MaxScenario+1), "", "at most")
}

func TestPlayByOtherLimits(t *testing.T) {
	text := "# a chain\nprofile delegation\n@1 1->2 ->3 ->4 ->5 ->6\n----\n"
	p, err := inspect.Play(text, "", limitfile.Default())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 6 || len(p.Said) != 2 || !strings.Contains(p.Limits, "profile: delegation") || !strings.Contains(p.Diff, "+ #6 deny max_stack_depth_exceeded 6/5 flow") {
		t.Errorf("%+v", p)
	}
	wider := strings.Replace(p.Limits, "max_stack_depth: {warn: off, max: 5}", "max_stack_depth: {warn: off, max: 9}", 1)
	if wider == p.Limits {
		t.Fatalf("the limit is spelled otherwise:\n%s", p.Limits)
	}
	if p, err = inspect.Play(text, wider, limitfile.Default()); err != nil || len(p.Said) != 0 {
		t.Errorf("a wider limit says %d things, %v", len(p.Said), err)
	}
}
