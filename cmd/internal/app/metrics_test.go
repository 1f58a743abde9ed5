package app

import (
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
)

// scrape returns what Prometheus gets.
func (r *running) scrape() string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", "http://"+r.MetricsAddr()+"/metrics", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		r.t.Fatalf("status %d: %v %s", resp.StatusCode, err, b)
	}
	return string(b)
}

// scraped waits for the lines. An ask is answered before the pump counts its batch, so the
// last question of folded need not be counted yet.
func (r *running) scraped(lines ...string) {
	r.t.Helper()
	var text string
	missing := func() []string {
		text = r.scrape()
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(text, "\n"+line+"\n") })
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if len(missing()) == 0 {
			return
		}
	}
	for _, line := range missing() {
		name, _, _ := strings.Cut(line, " ")
		var like []string
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, name) {
				like = append(like, l)
			}
		}
		r.t.Errorf("no %s, but %q", line, like)
	}
}

func TestMetrics(t *testing.T) {
	r := begin(t, Options{StateDir: t.TempDir(), Metrics: "127.0.0.1:0"})
	r.want(r.do("POST", "/v1/events", lines(pumptest.SelfCall("f", 1), call("f", 2, "a", "b"), call("f", 3, "b", "c"), selfCall("f", 1))+"nonsense\n"), 202)
	refused := pumptest.SelfCall("f", 4)
	refused.Ask = true
	r.want(r.do("POST", "/v1/check", string(refused.AppendJSON(nil))), 400)
	defiant := pumptest.SelfCall("f", 5)
	defiant.Time = defiant.Time.Add(time.Minute) // long after the order
	r.fake.Advance(time.Minute)
	r.want(r.do("POST", "/v1/events", lines(defiant)), 202)
	r.folded()
	r.scraped(
		`weir_events_total{kind="agent.call",outcome="folded"} 7`, // with two questions of folded
		`weir_events_total{kind="agent.call",outcome="duplicate"} 1`,
		`weir_events_rejected_total{reason="wrong_type"} 1`,
		`weir_calls_total{origin="agent"} 6`, // what was refused was not called
		`weir_refused_calls_total{rule="self_call"} 1`,
		`weir_verdicts_total{action="deny",mode="enforce",rule="self_call"} 1`,
		`weir_calls_after_stop_total{rule="self_call"} 1`,
		`weir_detection_latency_seconds_count{action="deny"} 1`,
		`weir_checks_total{decision="deny",route="check"} 1`,
		`weir_checks_total{decision="allow",route="check"} 2`,
		`weir_http_requests_total{code="4xx",handler="/v1/check",method="POST"} 1`,
		`weir_flows_live{status="stopped"} 1`,
		`weir_flows_live{status="active"} 2`,
		`weir_flows_opened_total 3`,
		`weir_consumer_lag_records{partition="0",stage="flows",topic="journal"} 0`,
		`weir_partitions_assigned{stage="agents",topic="activity"} 1`,
		`weir_limit{row="max_stack_depth",rule="max_stack_depth_exceeded"} 5`,
		`weir_limits_last_reload_successful 1`,
		`weir_limits_last_reload_success_timestamp_seconds 1.7951832e+09`,
		`weir_ready 1`,
	)
	text := r.scrape()
	if strings.Contains(text, "selftest") {
		t.Error("a self-test that is off would look like one that fails")
	}
	// Of the question that was waited for last the agent stage may not have heard yet.
	if !strings.Contains(text, `weir_consumer_lag_records{partition="0",stage="agents",topic="activity"}`) {
		t.Error("the agent stage has no lag")
	}
}

// TestMetricsOfAgents follows a stuck agent through a restart and until it is heard of
// again.
func TestMetricsOfAgents(t *testing.T) {
	o := Options{StateDir: t.TempDir(), Metrics: "127.0.0.1:0"}
	h := beginAgents(t, o)
	h.scraped(`weir_agents_live 0`, `weir_agents_stuck{certainty="stuck",reason="critical_margin_timeout"} 0`, `weir_recoveries_total{step="resume"} 0`)
	h.reports("planner", "critical")
	h.reports("writer", "comfortable")
	h.quiet(7*time.Minute, 1)
	h.folded()
	h.scraped(
		`weir_agents_live 2`,
		`weir_agents_stuck{certainty="stuck",reason="critical_margin_timeout"} 1`,
		`weir_agents_stuck{certainty="potentially_stuck",reason="critical_margin_timeout"} 0`,
		`weir_agents_stuck{certainty="stuck",reason="activity_timeout"} 0`,
		`weir_recoveries_total{step="resume"} 1`,
		`weir_recoveries_total{step="archive"} 0`,
		`weir_verdicts_total{action="resume",mode="enforce",rule="critical_margin_timeout"} 1`,
		`weir_activity_records_total{outcome="repeated"} 0`,
	)
	text := h.scrape()
	if !strings.Contains(text, `weir_activity_records_total{outcome="folded"}`) || strings.Contains(text, `weir_activity_records_total{outcome="folded"} 0`) {
		t.Error("no activity was folded")
	}
	if age := value(t, text, "weir_agents_told_age_seconds"); age < 5 || age > 200 {
		t.Errorf("agents were told of up to %v s ago", age)
	}
	h.stop()

	o.Clock = h.fake
	again := hand{begin(t, o)}
	again.fake = h.fake
	again.scraped(`weir_agents_live 2`, `weir_agents_stuck{certainty="stuck",reason="critical_margin_timeout"} 1`, `weir_recoveries_total{step="resume"} 0`)
	again.fake.Advance(time.Second)
	again.asked = h.asked
	again.reports("planner", "critical")
	again.quiet(time.Second, 2)
	again.folded()
	again.scraped(`weir_agents_live 2`, `weir_agents_stuck{certainty="stuck",reason="critical_margin_timeout"} 0`)
	again.fake.Advance(time.Hour)
	if age := value(t, again.scrape(), "weir_agents_told_age_seconds"); age < 3600 {
		t.Errorf("an agent stage that stands still was told of up to %v s ago", age)
	}
}

// value is what a metric without labels is in what Prometheus gets.
func value(t *testing.T, text, name string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+name+" ")
	word, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(word, 64)
	if !ok || err != nil {
		t.Fatalf("%s is %q", name, word)
	}
	return v
}

// TestMetricsOfRefusedLimits is what the alert about limits looks at.
func TestMetricsOfRefusedLimits(t *testing.T) {
	path := limitsFile(t, "profile: balanced\n")
	r := begin(t, Options{LimitsFile: path, Metrics: "127.0.0.1:0"})
	r.scraped(`weir_limits_last_reload_successful 1`, `weir_limits_last_reload_success_timestamp_seconds 1.7951832e+09`)
	r.fake.Advance(time.Hour)
	if err := os.WriteFile(path, []byte("profile: balanced\nmax_depth: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil {
		t.Error("bad limits are taken")
	}
	r.scraped(`weir_limits_last_reload_successful 0`, `weir_limits_last_reload_success_timestamp_seconds 1.7951832e+09`)
}

func TestMetricsListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := begin(t, Options{Metrics: taken.Addr().String()})
	if r.MetricsAddr() != "" {
		t.Error("metrics on an address that is taken")
	}
	r.want(r.do("POST", "/v1/events", lines(pumptest.SelfCall("f", 1))), 202)

	get := func(address, path, host string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	f := func(listen, path, host string, want int) {
		t.Helper()
		r := begin(t, Options{Metrics: listen})
		_, port, err := net.SplitHostPort(r.MetricsAddr())
		if err != nil {
			t.Fatal(err)
		}
		if got := get("127.0.0.1:"+port, path, host); got != want {
			t.Errorf("%s on %s for %s: status %d, want %d", path, listen, host, got, want)
		}
		r.stop()
	}
	f("127.0.0.1:0", "/metrics", "localhost", 200)
	f("127.0.0.1:0", "/metrics", "evil.example", 421)
	f("127.0.0.1:0", "/debug/pprof/heap", "localhost", 200)
	f("127.0.0.1:0", "/v1/flows", "localhost", 404)
	f(":0", "/metrics", "weir-0.weir", 200)
	f(":0", "/debug/pprof/heap", "localhost", 404)
}

// TestSeriesBudget counts the series of the program as it is, its routes included.
func TestSeriesBudget(t *testing.T) {
	const most, partitions = 1700, 64 // of events, and as many of activity
	r := begin(t, Options{Metrics: "127.0.0.1:0", SelfTest: time.Minute})
	families, err := r.api.Metrics().Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 4 * (partitions - 1) // two for each, of which there is one
	for _, f := range families {
		for _, m := range f.Metric {
			n++
			if h := m.GetHistogram(); h != nil {
				n += len(h.Bucket) + 2
			}
		}
	}
	t.Logf("%d series at %d partitions", n, partitions)
	if n > most {
		t.Errorf("%d series at %d partitions, want at most %d", n, partitions, most)
	}
}
