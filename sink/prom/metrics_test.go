package prom

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// everything is a reading of a member with this number of partitions, all of whose figures are
// of their own.
func everything(partitions int) func(*Reading) {
	limits := limitfile.Default()
	return func(r *Reading) {
		n := int64(0)
		next := func() int64 { n++; return n }
		for k := range r.Events {
			for o := range r.Events[k] {
				r.Events[k][o] = next()
			}
		}
		for a := range r.Verdicts[events.PingPong.Place()] {
			r.Verdicts[events.PingPong.Place()][a][0] = VerdictCount{next(), Example{uint64(next()), time.Unix(next(), 0)}}
		}
		for i := range r.Depths {
			r.Depths[i] = 1
		}
		for i := range r.Rejected {
			r.Rejected[i] = next()
		}
		for i := range partitions {
			r.Sources = append(r.Sources, Source{Topic: "agent-events", Partition: i, LagRecords: next(), Lag: time.Second},
				Source{Agents: true, Topic: "agent-activity", Partition: i, LagRecords: next(), Lag: time.Second})
		}
		r.Agents.Live, r.Activity, r.AgentsBehind, r.HasAgents = next(), [2]int64{next(), next()}, time.Minute, true
		for row := range r.Agents.Stuck {
			r.Agents.Stuck[row] = [2]int64{next(), next()}
		}
		r.Limits, r.Reloaded, r.ReloadedAt, r.Ready = &limits, true, time.Unix(next(), 0), true
		r.SelfTest = SelfTest{On: true, Passed: time.Unix(next(), 0), Took: time.Millisecond}
	}
}

func requests() (out []Request) {
	for _, p := range []string{"/v1/events", "/v1/check", "/v1/verdicts", "/v1/flows", "/v1/flows/{id}", "/v1/flows/{id}/events", "/v1/limits", "/v1/deadletters",
		"/healthz", "/readyz", "/-/reload", "/v1/agents", "/v1/stream"} {
		out = append(out, Request{"GET", p})
	}
	return out
}

func (m *Metrics) series(t *testing.T) int {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		for _, x := range f.Metric {
			n++
			if h := x.GetHistogram(); h != nil {
				n += len(h.Bucket) + 2 // with the one of infinity
			}
		}
	}
	return n
}

// seriesBudget is the most series that one process may have with 64 partitions of events
// and as many of activity.
const seriesBudget = 1800

func TestSeries(t *testing.T) {
	f := func(partitions int) {
		t.Helper()
		m := New(Options{Read: everything(partitions), Requests: requests()})
		n := m.series(t)
		t.Logf("%d partitions: %d series", partitions, n)
		if partitions <= 64 && n > seriesBudget {
			t.Errorf("%d series at %d partitions, want at most %d", n, partitions, seriesBudget)
		}
	}
	f(1)
	f(3)
	f(64)
	f(256)
}

// wasted is a reading with n spenders of each kind, with all figures of each.
func wasted(n int) func(*Reading) {
	spent := Spent{Calls: 1, Tokens: [PriceCount]int64{1, 2, 3}, MicroUSD: [PriceUnknown]int64{4, 5}}
	return func(r *Reading) {
		for by := range SpenderCount {
			for i := range n {
				r.Waste = append(r.Waste, Waste{By: by, Name: fmt.Sprintf("n%d", i), AfterWarning: spent, AfterStop: spent})
			}
		}
	}
}

// TestWasteIsBounded counts the series of the most spenders of each kind.
func TestWasteIsBounded(t *testing.T) {
	// Those that have no name of their own are one more.
	without, with := New(Options{Read: func(*Reading) {}}).series(t), New(Options{Read: wasted(MostSpenders + 1)}).series(t)
	t.Logf("%d series, %d of spenders", with, with-without)
	if with-without != 1260 || without > seriesBudget {
		t.Errorf("%d series of spenders, want 5 x 21 x 12", with-without)
	}
}

// TestSeriesAreThereFromTheStart checks that no reported value brings a new series:
// the first of its sort would not be seen in a rate.
func TestSeriesAreThereFromTheStart(t *testing.T) {
	read := func(r *Reading) { r.SelfTest.On, r.HasAgents = true, true }
	m := New(Options{Read: func(r *Reading) { read(r) }, Requests: requests()})
	read = func(r *Reading) {
		r.SelfTest.On, r.HasAgents = true, true
	}
	before := m.series(t)
	for i := range 100_000 {
		m.Published(events.ActionAt(i%12), time.Duration(i), uint64(i))
		m.Batch(i%1000, time.Duration(i))
		m.Check(Route(i%5), &events.Verdict{Action: events.Action(fmt.Sprint(i)), CorrelationID: fmt.Sprint(i)}, time.Duration(i))
		m.FlowClosed(time.Duration(i), int64(i), []rules.CounterView{{Rule: fmt.Sprint(i), Limit: 1}, {Rule: "max_total_calls", Limit: 1}})
	}
	handler := m.Counted(requests()[0], func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.Path, 404) })
	handler(httptest.NewRecorder(), httptest.NewRequest("GET", "/"+strings.Repeat("x", 1000), nil))
	read = func(r *Reading) {
		everything(0)(r)
		r.Limits = nil
		r.Verdicts[events.PingPong.Place()] = [events.ActionCount][2]VerdictCount{4: {{N: 5, Last: Example{1, time.Unix(1, 0)}}}}
	}
	if after := m.series(t); after != before {
		t.Errorf("%d series at the start, %d later", before, after)
	}
}

// scraped returns what Prometheus gets of a reading.
func scraped(read func(*Reading)) string {
	w := httptest.NewRecorder()
	New(Options{Read: read}).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return "\n" + w.Body.String()
}

func TestAgents(t *testing.T) {
	text := scraped(func(r *Reading) {
		r.Agents.Live = 7
		r.Agents.Stuck[agents.RuleHealthPoor] = [2]int64{0, 2}
		r.Agents.Stuck[agents.RuleHealthGood] = [2]int64{3, 0} // of the same reason
		r.Agents.Stuck[agents.RuleRescue] = [2]int64{1, 1}
		r.Verdicts[events.HealthTimeout.Place()][events.Resume.Place()][0].N = 4
		r.Verdicts[events.RescueRequested.Place()][events.Resume.Place()][0].N = 1
		r.Verdicts[events.ActivityTimeout.Place()][events.Notify.Place()] = [2]VerdictCount{{N: 2}, {N: 9}}
		r.Verdicts[events.RescueRefusedNotStuck.Place()][events.Notify.Place()][0].N = 8 // no agent was helped
		r.Activity, r.AgentsBehind, r.HasAgents = [2]int64{10, 3}, 90*time.Second, true
		r.Fold.By(events.AgentMessageRate.Place()).Leaked = 5
		r.Fold.By(events.OrdersDefied.Place()).Defied = 6
		r.Fold.By(events.PingPong.Place()).Acks = [2]int64{1, 2}
		r.Fold.By(events.ReasonCount).Acks = [2]int64{3, 4}
	})
	for _, line := range []string{
		`weir_agents_live 7`,
		`weir_agents_stuck{certainty="stuck",reason="health_timeout"} 2`,
		`weir_agents_stuck{certainty="potentially_stuck",reason="health_timeout"} 3`,
		`weir_agents_stuck{certainty="potentially_stuck",reason="rescue_requested"} 1`,
		`weir_agents_stuck{certainty="stuck",reason="activity_timeout"} 0`,
		`weir_recoveries_total{step="resume"} 5`,
		`weir_recoveries_total{step="archive"} 0`,
		`weir_recoveries_total{step="notify"} 2`,
		`weir_verdicts_total{action="notify",mode="shadow",rule="activity_timeout"} 9`,
		`weir_verdicts_total{action="archive",mode="enforce",rule="cadence_broken"} 0`,
		`weir_activity_records_total{outcome="folded"} 10`,
		`weir_activity_records_total{outcome="repeated"} 3`,
		`weir_agents_told_age_seconds 90`,
		`weir_leaked_calls_total{rule="agent_message_rate_exceeded"} 5`,
		`weir_calls_after_stop_total{rule="orders_defied"} 6`,
		`weir_verdict_acks_total{applied="true",rule="a2a_ping_pong"} 2`,
		`weir_verdict_acks_total{applied="false",rule="other"} 3`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if text := scraped(func(*Reading) {}); strings.Contains(text, "\nweir_agents_told_age_seconds ") {
		t.Error("a member without agents tells of their stage")
	}
}

func TestLint(t *testing.T) {
	m := New(Options{Read: everything(3), Requests: requests(), Native: true})
	m.Published(events.Deny, time.Second, 7)
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestExemplars(t *testing.T) {
	m := New(Options{Read: everything(1)})
	m.Published(events.Deny, 30*time.Millisecond, 0xabc)
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	get := func(accept string) string {
		t.Helper()
		req, err := http.NewRequest("GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	open := get("application/openmetrics-text; version=1.0.0")
	for _, want := range []string{`weir_detection_latency_seconds_bucket{action="deny",le="0.1"} 1 # {flow_key="0000000000000abc"} 0.03`,
		`weir_verdicts_total{action="deny",mode="enforce",rule="a2a_ping_pong"}`} {
		if !strings.Contains(open, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(open, "# {flow_key="); n != 11 {
		t.Errorf("%d exemplars", n)
	}
	if text := get("text/plain"); strings.Contains(text, "flow_key") {
		t.Error("exemplars in the text format, which does not know them")
	}
}

func TestNoMetrics(t *testing.T) {
	var m *Metrics
	m.Batch(1, 1)
	m.Checkpoint(1)
	m.Deadline(1)
	m.Published(events.Deny, 1, 1)
	m.FlowClosed(1, 1, nil)
	m.Check(RouteCheck, nil, 1)
	w := httptest.NewRecorder()
	m.Counted(Request{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 204 {
		t.Error(w.Code)
	}
}

// TestCountersAreFigures holds that all that is counted is added up: a field of another type
// would be taken for figures.
func TestCountersAreFigures(t *testing.T) {
	figure := reflect.TypeFor[int64]()
	var f func(at string, of reflect.Type) int
	f = func(at string, of reflect.Type) (n int) {
		switch {
		case of == figure:
			return 1
		case of.Kind() == reflect.Array:
			return of.Len() * f(at+"[]", of.Elem())
		case of.Kind() == reflect.Struct:
			for i := range of.NumField() {
				n += f(at+"."+of.Field(i).Name, of.Field(i).Type)
			}
			return n
		}
		t.Errorf("%s is %s, want int64 or an array or struct of it", at, of)
		return 0
	}
	if n := f("Counters", reflect.TypeFor[Counters]()); n != int(size) {
		t.Errorf("%d figures, of which %d are added", n, size)
	}
	var one, sum Counters
	for range 2 {
		for i := range one.figures() {
			one.figures()[i] = int64(i)
		}
		sum.Take(&one)
		if one != (Counters{}) {
			t.Error("figures are left where they were taken")
		}
	}
	for i, v := range sum.figures() {
		if v != 2*int64(i) {
			t.Errorf("figure %d is %d", i, v)
		}
	}
}
