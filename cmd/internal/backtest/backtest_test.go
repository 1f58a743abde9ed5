package backtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// log is a log of flows in which an agent calls others n times each, every call with
// other words and with work, so that only budgets say anything.
func log(t *testing.T, calls ...int) []events.Event {
	t.Helper()
	var out []events.Event
	at := events.Stamp(1_700_000_000_000)
	for f, n := range calls {
		for i := range n {
			at += 30_000
			line := fmt.Sprintf(`{"id":"%d-%d","time":%q,"kind":"agent.call","correlation_id":"f%d","from":{"agent":"a"},"to":{"agent":"b%d"},"content_hash":"xxh64:%016x"}`,
				f, i, at.Time().Format("2006-01-02T15:04:05.000Z"), f, i%3, 1000*f+i+1)
			var ev events.Event
			if err := events.Decode([]byte(line), &ev); err != nil {
				t.Fatal(err)
			}
			out = append(out, ev)
			var back events.Event
			line = fmt.Sprintf(`{"id":"%d-%d-r","time":%q,"kind":"agent.return","correlation_id":"f%d","from":{"agent":"b%d"},"to":{"agent":"a"},"had_work":true}`,
				f, i, (at + 1000).Time().Format("2006-01-02T15:04:05.000Z"), f, i%3)
			if err := events.Decode([]byte(line), &back); err != nil {
				t.Fatal(err)
			}
			out = append(out, back)
		}
	}
	return out
}

func fold(t *testing.T, l analyzer.Limits, steps bool, log []events.Event) *Trial {
	t.Helper()
	trial, err := NewTrial(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	trial.Steps = steps
	for i := range log {
		ev := log[i]
		trial.Fold(&ev)
	}
	return trial
}

func limits(t *testing.T, text string) analyzer.Limits {
	t.Helper()
	l, err := limitfile.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const tenCalls = "rules: {max_total_calls: {warn: 8, max: 10}}\n"

func TestReport(t *testing.T) {
	trial := fold(t, limits(t, tenCalls), false, log(t, 3, 9, 14))
	r := trial.Report(Marks{"f2": Wrong})
	if r.Flows != 3 || r.Stopped != 1 || r.Warned != 2 || r.Calls != 26 {
		t.Fatalf("got %d flows, %d stopped, %d warned, %d calls; want 3, 1, 2, 26", r.Flows, r.Stopped, r.Warned, r.Calls)
	}
	if s := r.Stops[0]; s.Flow != "f2" || s.Mark != Wrong || s.CallsAfter != 14-s.Call || s.Call < 10 || s.Call > 11 {
		t.Errorf("the stop is %+v", s)
	}
	for _, x := range r.Rules {
		if x.Unit != events.UnitCalls || x.Stopped == 0 {
			continue
		}
		if x.Measured != 3 || x.P50 != 9 || x.Max != 14 || *x.Stop != 11 {
			t.Errorf("%s: %+v", x.Rule, x)
		}
		sum := 0
		for _, b := range x.Bars {
			sum += b.Flows
		}
		if sum != 3 {
			t.Errorf("the bars hold %d of 3 flows: %+v", sum, x.Bars)
		}
		for _, o := range x.At {
			if want := map[bool]int{true: 2, false: 1}[o.Stop <= 9]; o.Stop > 3 && o.Stop <= 14 && o.Flows != want {
				t.Errorf("at %d: %d flows, want %d", o.Stop, o.Flows, want)
			}
		}
		if x.Nearest[0] != (Near{"f1", 9}) {
			t.Errorf("nearest is %+v", x.Nearest)
		}
	}
	if again, missed := trial.Broken(Marks{"f2": Wrong, "f0": Right, "f1": Wrong, "x": Right}); fmt.Sprint(again, missed) != "[f2] [f0]" {
		t.Errorf("broken are %v, %v", again, missed)
	}
}

// TestTokens counts the tokens of a flow once, whatever rows count them in part, and goes
// on from what an earlier episode has spent.
func TestTokens(t *testing.T) {
	var evs []events.Event
	at := events.Stamp(1_700_000_000_000)
	for i := range 6 {
		at += 1000
		if i == 3 {
			at += 3_600_000 // a new episode
		}
		var ev events.Event
		line := fmt.Sprintf(`{"id":"%d","time":%q,"kind":"llm.call","correlation_id":"f","from":{"agent":"a"},"usage":{"scope":"delta","input_tokens":1000,"output_tokens":10,"cost_usd":0.5}}`, i, at.Time().Format("2006-01-02T15:04:05.000Z"))
		if err := events.Decode([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	if r := fold(t, limits(t, tenCalls), false, evs).Report(nil); r.Tokens != 6*1010 || r.Cost != 3_000_000 {
		t.Errorf("%d tokens and %d micro dollars; want 6060 and 3000000", r.Tokens, r.Cost)
	}
}

// TestOtherThresholds holds "at this value, this number of flows" to trials with those thresholds.
func TestOtherThresholds(t *testing.T) {
	var calls []int
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		calls = append(calls, 1+rnd.IntN(40))
	}
	records := log(t, calls...)
	for _, x := range fold(t, limits(t, tenCalls), false, records).Report(nil).Rules {
		if x.Stopped == 0 {
			continue
		}
		for _, o := range x.At {
			other := fold(t, limits(t, fmt.Sprintf("rules: {max_total_calls: {warn: off, max: %d}}\n", o.Stop-1)), false, records).Report(nil)
			if other.Stopped != o.Flows {
				t.Errorf("at %d calls: said %d, and a trial stops %d", o.Stop, o.Flows, other.Stopped)
			}
		}
	}
}

func TestDifferences(t *testing.T) {
	records := log(t, 3, 9, 14)
	a, b := fold(t, limits(t, tenCalls), false, records), fold(t, limits(t, "rules: {max_total_calls: {warn: off, max: 4}}\n"), false, records)
	var got []string
	for _, d := range Differences(a, b) {
		got = append(got, d.Flow+": "+d.Was.Word+", "+d.Is.Word)
	}
	if s := strings.Join(got, "; "); s != "f1: warned, stopped; f2: stopped, stopped" {
		t.Errorf("got %s", s)
	}
	// What matters most stands first, whatever came first.
	records = log(t, 14, 3, 9)
	a, b = fold(t, limits(t, tenCalls), false, records), fold(t, limits(t, "rules: {max_total_calls: {warn: off, max: 4}}\n"), false, records)
	if d := Differences(a, b); len(d) != 2 || d[0].Flow != "f2" || d[0].Is.When.Who() == "" {
		t.Errorf("differences are %+v", d)
	}
	for want, m := range map[string]Moment{"a -> b": {From: "a", To: "b"}, "a -> read": {From: "a", Tool: "read"}, "a": {From: "a"}, "": {}} {
		if got := m.Who(); got != want {
			t.Errorf("who is %q, want %q", got, want)
		}
	}
	if d := Differences(a, a); len(d) != 0 {
		t.Errorf("a trial differs from itself: %+v", d)
	}
}

// TestSuggest holds that no honest flow is stopped by what is suggested.
func TestSuggest(t *testing.T) {
	var calls []int
	for i := range 120 {
		calls = append(calls, 2+i%5)
	}
	records := log(t, append(calls, 30)...)
	trial := fold(t, limits(t, tenCalls), false, records)
	list, err := trial.Suggest(nil, LeastFlows)
	if err != nil {
		t.Fatal(err)
	}
	suggested := trial.Limits
	for _, s := range list {
		suggested.Rules[s.Row] = s.Setting
	}
	if r := fold(t, suggested, false, records).Report(nil); r.Stopped != 1 || r.Stops[0].Flow != "f120" {
		t.Errorf("under what is suggested %d flows are stopped: %+v", r.Stopped, r.Stops)
	}
	// Marked wrong, the long flow is honest too.
	if list, err = trial.Suggest(Marks{"f120": Wrong}, LeastFlows); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		suggested.Rules[s.Row] = s.Setting
	}
	if r := fold(t, suggested, false, records).Report(nil); r.Stopped != 0 {
		t.Errorf("a flow that was marked wrong is stopped: %+v", r.Stops)
	}
	// Why there are too few is said, and that a duration is measured in the silence after it, too.
	if _, err := fold(t, limits(t, tenCalls), false, log(t, 3, 4, 30)).Suggest(nil, LeastFlows); err == nil || !strings.Contains(err.Error(), "the log has 2 honest flows with calls") || !strings.HasSuffix(err.Error(), "; 1 stopped flow that nobody has judged is left out") {
		t.Errorf("limits were suggested from two flows: %v", err)
	}
	if list, err := fold(t, limits(t, tenCalls), false, log(t, 3, 4, 30)).Suggest(nil, 2); err != nil || len(list) == 0 {
		t.Errorf("from two flows, which the caller allows: %v, %v", list, err)
	}
	silence := fmt.Sprintf(", with the %.0f s of silence after which a flow is over", trial.Limits.Flow.Idle.Seconds())
	for _, s := range list {
		if row := &analyzer.Rules[s.Row]; strings.Contains(s.Evidence, silence) != (row.Name == "max_flow_duration") {
			t.Errorf("%s: %q", row.Name, s.Evidence)
		}
	}
}

// TestCalibrationHolds draws good flows again and again. Of further ones at most the promised
// share may be stopped, within what chance allows for their number.
func TestCalibrationHolds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const share, rounds, good, more = 0.05, 40, 60, 60
	stopped := 0
	for range rounds {
		var calls []int
		for range good + more {
			calls = append(calls, 1+int(rnd.ExpFloat64()*8))
		}
		trial := fold(t, limits(t, "rules: {max_total_calls: {warn: 80, max: 100}}\n"), true, log(t, calls...))
		first := map[string]bool{}
		for _, f := range trial.Flows()[:good] {
			first[f.ID] = true
		}
		c, err := trial.Calibrate(share, func(f *Flow) bool { return first[f.ID] }, nobody)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range trial.Flows()[good:] {
			if _, over := c.stops.over(f); over {
				stopped++
			}
		}
		if c.Upper < float64(c.Stopped)/good {
			t.Errorf("the upper bound %v is below what was seen", c.Upper)
		}
	}
	// 2,400 further flows; three standard deviations above 5 %, rounds being dependent within.
	if got := float64(stopped) / (rounds * more); got > share+0.02 {
		t.Errorf("%.3f of further good flows are stopped; at most %.2f was promised", got, share)
	}
	if _, err := fold(t, limits(t, tenCalls), true, log(t, 3, 4, 5)).Calibrate(0.01, func(*Flow) bool { return true }, nobody); err == nil {
		t.Error("a promise of 1 % was made from three flows")
	}
}

// TestCalibratedLimitsStopWhatTheySaid folds the log again by the limits that came out.
func TestCalibratedLimitsStopWhatTheySaid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var calls []int
	for range 200 {
		calls = append(calls, 1+int(rnd.ExpFloat64()*8))
	}
	records := log(t, calls...)
	trial := fold(t, limits(t, tenCalls), true, records)
	c, err := trial.Calibrate(0.1, func(*Flow) bool { return true }, nobody)
	if err != nil {
		t.Fatal(err)
	}
	again := fold(t, c.Limits, false, records)
	for i, f := range trial.Flows() {
		at, over := c.stops.over(f)
		if stopped := again.Flows()[i].Stopped != nil; stopped != over {
			t.Errorf("%s with %d calls: said %v, and the limits stop it: %v (%s at %+v)", f.ID, f.Calls, over, stopped, analyzer.Rules[at.row].Name, again.Flows()[i].Stopped)
		}
	}
	if c.Stopped == 0 {
		t.Error("nothing is stopped, so nothing was tested")
	}
	// None of them used a tool: how often one may do so stays as it was.
	if got, want := c.Limits.Rules[analyzer.RuleRepetition], trial.Limits.Rules[analyzer.RuleRepetition]; got != want {
		t.Errorf("a row that no good flow knows is %+v, was %+v", got, want)
	}
	// A row that saves nothing in runaways takes no share of the good flows from one that does.
	all, err := trial.Calibrate(0.1, func(f *Flow) bool { return f.Calls <= 30 }, nobody)
	if err != nil {
		t.Fatal(err)
	}
	runaway := func(f *Flow) bool { return f.Calls > 30 }
	chosen, err := trial.Calibrate(0.1, func(f *Flow) bool { return f.Calls <= 30 }, runaway)
	if err != nil {
		t.Fatal(err)
	}
	var failed []*Flow
	for _, f := range trial.Flows() {
		if runaway(f) {
			failed = append(failed, f)
		}
	}
	if by, of := chosen.stops.saved(failed, inCalls), all.stops.saved(failed, inCalls); len(failed) == 0 || by < of {
		t.Errorf("%d calls of %d runaways are saved by chosen rows, %d by all", by, len(failed), of)
	}
}

// TestBudgetsThatNobodySet take part where runaways are known, and only there; what was turned off, or
// is only to warn, never does.
func TestBudgetsThatNobodySet(t *testing.T) {
	// Good flows make up to 60 calls and runaways 61, but these all to one agent of three.
	var records []events.Event
	for f, n := range append(slices.Repeat([]int{12, 30, 60}, 20), slices.Repeat([]int{61}, 10)...) {
		flow := log(t, n)
		for i := range flow {
			ev := &flow[i]
			ev.ID, ev.CorrelationID = fmt.Sprintf("%d-%s", f, ev.ID), fmt.Sprintf("f%d", f)
			switch {
			case n != 61:
			case ev.Kind == events.AgentCall:
				ev.To.Agent = "b0"
			default:
				ev.From.Agent = "b0"
			}
		}
		records = append(records, flow...)
	}
	good := func(f *Flow) bool { return f.Calls <= 60 }
	runaway := func(f *Flow) bool { return !good(f) }
	const row = analyzer.RuleCallsPerAgent
	for _, c := range []struct {
		limits  string
		failed  func(*Flow) bool
		chooses bool
	}{
		{"profile: balanced\n", runaway, true},
		{"profile: balanced\n", nobody, false},
		{"rules: {max_calls_per_agent: {mode: off}}\n", runaway, false},
		{"rules: {max_calls_per_agent: {warn: 5}}\n", runaway, false},
	} {
		trial := fold(t, limits(t, c.limits), true, records)
		got, err := trial.Calibrate(0.1, good, c.failed)
		if err != nil {
			t.Fatal(err)
		}
		before, after := trial.Limits.Rules[row], got.Limits.Rules[row]
		if chosen := before != after; chosen != c.chooses {
			t.Errorf("with %q: %s was %+v and is %+v", c.limits, analyzer.Rules[row].Name, before, after)
		}
		if c.chooses && (after.Stop <= 20 || after.Stop > 30) {
			t.Errorf("the stop is %d, where good flows call an agent 20 times and runaways 61 times", after.Stop)
		}
	}
}

// TestUnseen measures limits in flows that they were not calibrated on: the promise holds for those,
// whatever rows were chosen.
func TestUnseen(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	var calls []int
	for range 400 {
		calls = append(calls, 1+int(rnd.ExpFloat64()*8))
	}
	for range 40 {
		calls = append(calls, 90+rnd.IntN(20))
	}
	trial := fold(t, limits(t, "profile: balanced\n"), true, log(t, calls...))
	unseen := trial.Unseen([]float64{0.001, 0.05}, 10, func(f *Flow) bool { return f.Calls < 90 }, func(f *Flow) bool { return f.Calls >= 90 })
	if len(unseen) != 1 || unseen[0].Share != 0.05 || unseen[0].Splits != 10 {
		t.Fatalf("got %+v; 200 good flows are enough for 5 %% and not for 0.1 %%", unseen)
	}
	u := unseen[0]
	if u.Good[0] > 0.06 || u.Good[1] > 0.06 || u.Good[1] == 0 {
		t.Errorf("of unseen good flows %.3f are stopped by rules, %.3f by steps; 0.05 was promised", u.Good[0], u.Good[1])
	}
	if u.Saved[0] < 0.5 || u.Saved[1] < 0.5 || u.Saved[0] > 1 || u.Budgeted || u.Unit != "calls" {
		t.Errorf("of runaways four times as long as any good flow %.3f and %.3f are saved: %+v", u.Saved[0], u.Saved[1], u)
	}
}

func TestUpper(t *testing.T) {
	// The rule of three: none of 100 seen leaves 2.95 % possible.
	if u := upper(0, 100); u < 0.0294 || u > 0.0296 {
		t.Errorf("none of 100: %v", u)
	}
	if u := upper(5, 100); u < 0.1022 || u > 0.1024 {
		t.Errorf("5 of 100: %v", u)
	}
	if upper(3, 3) != 1 {
		t.Error("all of 3")
	}
}

func TestMarks(t *testing.T) {
	m := Mark{Flow: "f|1", Mark: Right}
	marks, err := ReadMarks(strings.NewReader(string(m.Line()) + "\n" + `{"flow":"f|1","mark":"wrong"}` + "\n"))
	if err != nil || marks["f|1"] != Wrong {
		t.Errorf("got %v, %v", marks, err)
	}
	for _, bad := range []string{`{"flow":"","mark":"right"}`, `{"flow":"a","mark":"maybe"}`, `no`} {
		if _, err := ReadMarks(strings.NewReader("\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestReportsQuote holds that names out of logs cannot be markup.
func TestReportsQuote(t *testing.T) {
	records := log(t, 14)
	for i := range records {
		records[i].CorrelationID = "<script>alert(1)</script>|\n# x"
	}
	trial := fold(t, limits(t, tenCalls), true, records)
	d := &Document{Title: "Backtest", Sources: []string{"<b>"}, Report: trial.Report(nil), Against: "other", Other: trial.Report(nil),
		Differences: Differences(trial, fold(t, limitfile.Default(), false, records))}
	var page, sheet bytes.Buffer
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if strings.Count(page.String(), "<script>") != 1 || strings.Contains(page.String(), "alert(1)</script") || strings.Contains(page.String(), "<b>,") || !strings.Contains(page.String(), "&lt;script&gt;") {
		t.Error("a name out of the log is markup on the page")
	}
	if err := d.Markdown(&sheet); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(sheet.String(), "\n# x") {
		t.Errorf("a name out of the log ends its row:\n%s", sheet.String())
	}
}

// TestMarkdownOfHostileNames holds that a name in a comment on a pull request stays text. It fetches no
// picture, mentions no person, and ends no cell or code early. Invisible characters are shown.
func TestMarkdownOfHostileNames(t *testing.T) {
	for name, want := range map[string]string{
		"plain-1":                        "`plain-1`",
		"a|b":                            "`a\\|b`",
		"<b>@x":                          "`<b>@x`",
		"`![x](http://evil/x.png) @team": "<code>&#96;&#33;&#91;x&#93;(http&#58;//evil/x.png) <code>@</code>team</code>",
		`a\|b`:                           "<code>a&#92;&#124;b</code>",
		"a\u202eb\u0085":                 "<code>a&#92;u202eb&#92;u0085</code>",
	} {
		if got := code(name); got != want {
			t.Errorf("%q is written %s, want %s", name, got, want)
		}
	}
	if got, want := cell("see [it](http://e/) @you #1 `x`"), "see &#91;it&#93;(http&#58;//e/) <code>@</code>you <code>#</code>1 &#96;x&#96;"; got != want {
		t.Errorf("a message is written %s, want %s", got, want)
	}
}

// TestExempted holds that the report contains what an exemption let through, and that no flow is stopped
// for it.
func TestExempted(t *testing.T) {
	records := log(t, 30, 30)
	for i := range records {
		if records[i].CorrelationID == "f0" {
			records[i].Tags = []string{"Nightly"}
		}
	}
	r := fold(t, limits(t, "rules: {max_total_calls: 10}\nexempt: [{tags: [nightly], rules: [max_total_calls], reason: batch}]"), false, records).Report(nil)
	if len(r.Stops) != 1 || r.Stops[0].Flow != "f1" || len(r.Exempted) != 1 || r.Exempted[0].Flow != "f0" || r.Exempted[0].CallsAfter != r.Stops[0].CallsAfter {
		t.Errorf("stopped %+v, exempted %+v", r.Stops, r.Exempted)
	}
	// What is in shadow mode for everybody is not let through by an exemption.
	r = fold(t, limits(t, "rules: {max_total_calls: {max: 10, mode: shadow}}\nexempt: [{tags: [nightly], rules: [max_total_calls], reason: batch}]"), false, records).Report(nil)
	if len(r.Stops) != 0 || len(r.Exempted) != 0 {
		t.Errorf("stopped %+v, exempted %+v by a rule in shadow mode", r.Stops, r.Exempted)
	}
}

func TestCoverage(t *testing.T) {
	l := limits(t, tenCalls)
	blind := fold(t, l, false, log(t, 3)).Report(nil).Blind
	if len(blind) != 1 || blind[0].What != "tools" || blind[0].In != "calls" {
		t.Errorf("blind are %+v", blind)
	}
}

// The predicate by which no flow is a runaway.
func nobody(*Flow) bool { return false }

// TestSavingsUnit counts savings in calls where most failed flows report no tokens.
func TestSavingsUnit(t *testing.T) {
	records := log(t, append(slices.Repeat([]int{3, 6, 9, 12}, 30), slices.Repeat([]int{60}, 8)...)...)
	good := func(f *Flow) bool { return f.Calls < 60 }
	runaway := func(f *Flow) bool { return f.Calls >= 60 }
	for told, want := range map[int]string{1: "calls", 4: "calls", 7: "tokens", 8: "tokens"} {
		trial := fold(t, limits(t, tenCalls), true, records)
		for _, f := range trial.Flows() {
			if f.Tokens = 0; runaway(f) && told > 0 {
				f.Tokens, told = 1000, told-1
			}
		}
		got := trial.Savings([]float64{0.05}, good, runaway)
		if len(got) != 1 || got[0].Unit != want {
			t.Errorf("%+v, want savings in %s", got, want)
		}
	}
}
