//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.yaml.in/yaml/v4"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/demo"
	"weir/cmd/internal/operate"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/guard"
	"weir/sink/prom/guardprom"
	"weir/state"
)

const promFolder = "../../sink/prom"

// TestMonitoring lets a real Prometheus scrape a real weir run under the load of the
// demonstration, and looks that every query of every panel and alert gets data. Then it
// breaks things and prints which alert fires after how long.
func TestMonitoring(t *testing.T) {
	if testing.Short() {
		t.Skip("a real Prometheus runs without -short")
	}
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	quick := "profile: balanced\nflow: {idle: 2s}\norders: {ttl: 5s}\nbudgets: [{name: team-day, scope: team, window: day, zone: " + weirtest.Zone(time.Now()) + ", measure: calls, hard: 3}]\n" // so that flows are closed and deadlines fire while the test looks
	write(t, limits, quick)
	r := startRun(t, "--in-memory", "--limits", limits, "--metrics", "127.0.0.1:0", "--self-test", "6s")
	var line struct{ Address string }
	if err := json.Unmarshal([]byte(r.stderr.await(t, "metrics are served", r.ended)), &line); err != nil {
		t.Fatal(err)
	}
	p := startPrometheus(t, map[string][]string{"weir": {line.Address, lowOnDisk(t)}, "weir-guard": {exportGuard(t, r.url)}})

	begun := time.Now()
	// Of this weir, not of the other: only from here on does a change of its limits show.
	p.await(t, []question{{"first scrape", fmt.Sprintf(`weir_limits_last_reload_successful{job="weir",instance=%q}`, line.Address)}})
	runtime.GC() // or there might be no pause to show
	load := startLoad(t, r.url)
	load.fallSilent(t)
	write(t, limits, quick+"rules:\n  max_total_calls: {max: 90}\n")
	p.await(t, queriesOfDashboards(t))
	p.await(t, queriesOfRules(t))
	load.stop(t)
	t.Logf("%d queries of dashboards and %d of rules have data", len(queriesOfDashboards(t)), len(queriesOfRules(t)))

	t.Logf("\nAlerts, with minutes played as seconds and the self-test stale after 18 s:")
	p.fires(t, "WeirAgentsStuck", begun, "after an agent was silent for an hour")
	for _, alert := range []string{"WeirDiskLow", "WeirSelfTestStale", "WeirNotReady"} {
		p.fires(t, alert, begun, "after a disk was full")
	}
	begun = time.Now()
	load.defy(t)
	p.fires(t, "WeirStopsIgnored", begun, "after calls against an order")
	begun = time.Now()
	write(t, limits, "profile: balanced\nmax_depth: 3\n")
	p.fires(t, "WeirLimitsReloadFailed", begun, "after a limits file with a fault")
	begun = time.Now()
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.stderr)
	}
	p.fires(t, "WeirDown", begun, "after the end of weir")
	p.fires(t, "WeirGuardStale", begun, "after the end of weir")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lowOnDisk starts a weir whose disk has room to open the state and none to write, and
// returns the address of its metrics.
func lowOnDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	o := app.Options{Listen: "127.0.0.1:0", StateDir: dir, Metrics: "127.0.0.1:0", SelfTest: 6 * time.Second}
	for _, floor := range []int64{0, int64(st.Bavail) * int64(st.Bsize) / 2 * 3} { // once with room, to make the state
		o.State = state.Options{MinFree: floor, MemTableSize: 8 << 20}
		a, err := app.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := func() {
			ctx, cancel := context.WithTimeout(context.Background(), operate.Graceful)
			defer cancel()
			if err := a.Stop(ctx); err != nil {
				t.Error(err)
			}
		}
		if floor != 0 {
			t.Cleanup(stop)
			return a.MetricsAddr()
		}
		stop()
	}
	return ""
}

// exportGuard connects a dispatcher's guard and returns the address of its metrics.
func exportGuard(t *testing.T, weir string) string {
	t.Helper()
	g, err := guard.Dial(weir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	registry := prometheus.NewRegistry()
	registry.MustRegister(guardprom.New(g))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// load is the demonstration's, and what it leaves out.
type load struct {
	url    string
	cancel context.CancelFunc
	ended  chan error
}

func startLoad(t *testing.T, address string) *load {
	t.Helper()
	runs, err := demo.Runs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{url: address, cancel: cancel, ended: make(chan error, 1)}
	feed := demo.NewFeed(&cli.Env{Out: io.Discard, Err: io.Discard, Now: time.Now}, address, runs)
	go func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				l.ended <- nil
				return
			case <-pace.C:
			}
			err := feed.Send(ctx)
			if err == nil && n%100 == 0 {
				err = l.extra(ctx, n)
			}
			if err != nil && ctx.Err() == nil {
				l.ended <- err
				return
			}
		}
	}()
	return l
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
}

func (l *load) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, "POST", l.url+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// extra sends a repeat, nonsense, and a user's call with its results.
func (l *load) extra(ctx context.Context, n int) error {
	flow := fmt.Sprint("extra-", n)
	call := events.Event{ID: flow, Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flow, Origin: events.OriginUser, To: events.Party{Agent: "a"}}
	line := append(call.AppendJSON(nil), '\n')
	if err := l.post(ctx, waste(fmt.Sprint("waste-", n))); err != nil {
		return err
	}
	if err := l.spend(ctx, flow); err != nil {
		return err
	}
	return l.post(ctx, slices.Concat(line, line, []byte("nonsense\n")))
}

// spend checks a call of a team whose budget is soon spent.
func (l *load) spend(ctx context.Context, flow string) error {
	call := events.Event{Time: events.StampOf(time.Now()), Kind: events.AgentCall, ID: "spend-" + flow, CorrelationID: "spend-" + flow, TeamID: "payments", From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/check", bytes.NewReader(call.AppendJSON(nil)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// waste is a flow that makes one call over and over, and reports its costs.
func waste(flow string) (body []byte) {
	at := events.StampOf(time.Now())
	for i := range 12 {
		id := fmt.Sprintf("%s-%d", flow, i)
		same := events.Hash{Algorithm: events.XXH64, Value: 7}
		for k, ev := range []events.Event{
			{Kind: events.LLMCall, Usage: events.Usage{Known: true, Input: 900, Output: 100, CostMicroUSD: 3000}},
			{Kind: events.ToolCall, Tool: events.Tool{Name: "read", CallID: id, ArgsHash: same}},
			{Kind: events.ToolResult, Tool: events.Tool{Name: "read", CallID: id}, Content: same, Status: events.StatusOK},
		} {
			ev.ID, ev.Time, ev.Source, ev.CorrelationID, ev.TenantID = fmt.Sprint(id, "-", k), at, "shop", flow, "acme"
			ev.From.Agent = "coder"
			body = append(ev.AppendJSON(body), '\n')
		}
	}
	return body
}

// fallSilent sends what an agent reported about itself an hour ago, which is its last report.
func (l *load) fallSilent(t *testing.T) {
	t.Helper()
	report := events.Event{ID: "silent", Time: events.StampOf(time.Now().Add(-time.Hour)), Kind: events.AgentStatus,
		From: events.Party{Agent: "silent"}, AgentState: &events.AgentState{Status: "active", Margin: "critical"}}
	if err := l.post(t.Context(), append(report.AppendJSON(nil), '\n')); err != nil {
		t.Fatal(err)
	}
}

// defy makes calls against an order, as a dispatcher does that is not connected.
func (l *load) defy(t *testing.T) {
	t.Helper()
	var body []byte
	now := time.Now()
	for i := range 12 {
		at := events.StampOf(now).Add(time.Duration(i) * time.Millisecond)
		if i == 0 {
			at = at.Add(-1500 * time.Millisecond) // what comes so much later was not in flight
		}
		ev := events.Event{ID: fmt.Sprint("defiant-", i), Time: at, Kind: events.AgentCall, TransferMode: events.ReturnToCaller,
			CorrelationID: "defiant", From: events.Party{Agent: "a"}, To: events.Party{Agent: "a"}}
		body = append(ev.AppendJSON(body), '\n')
	}
	if err := l.post(t.Context(), body); err != nil {
		t.Fatal(err)
	}
}

// server is a Prometheus.
type server struct{ url string }

// startPrometheus starts one that scrapes the targets of each job. It plays the minutes
// of the alerts as seconds.
func startPrometheus(t *testing.T, jobs map[string][]string) *server {
	t.Helper()
	get := exec.Command("sh", filepath.Join(promFolder, "prometheus", "get.sh"))
	var why bytes.Buffer
	get.Stderr = &why
	folder, err := get.Output()
	if err != nil {
		t.Fatalf("get prometheus: %v\n%s", err, why.String())
	}
	dir := t.TempDir()
	minutes := regexp.MustCompile(`(for: \d+)m`)
	for _, name := range []string{"records.yml", "alerts.yml"} {
		rules, err := os.ReadFile(filepath.Join(promFolder, "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(minutes.ReplaceAllString(string(rules), "${1}s"), "> 180", "> 18")
		write(t, filepath.Join(dir, name), text)
	}
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [records.yml, alerts.yml]\nscrape_configs:\n"
	for job, targets := range jobs {
		quoted, err := json.Marshal(targets)
		if err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: %s}]}\n", job, quoted)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(folder)), "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address, "--enable-feature=exemplar-storage", "--log.level=warn")
	cmd.Stderr = &why
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("prometheus: %s", why.String())
		}
	})
	return &server{"http://" + address}
}

// query asks for the value of now.
func (s *server) query(expr string) (samples []sample, err error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := s.get("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) { // 0/0: nothing has come of it yet
			samples = append(samples, sample{r.Metric, v})
		}
	}
	return samples, nil
}

func (s *server) get(path string, v any) error {
	resp, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

type sample struct {
	labels map[string]string
	value  float64
}

func (s sample) String() string {
	var labels []string
	for k, v := range s.labels {
		if k != "job" && k != "instance" && k != "__name__" {
			labels = append(labels, k+"="+v)
		}
	}
	slices.Sort(labels)
	return fmt.Sprintf("{%s} %.4g", strings.Join(labels, ", "), s.value)
}

// question is a query and where it stands.
type question struct{ where, expr string }

// patience is how long the test waits for data or for an alert.
const patience = 60 * time.Second

// poll calls try until it returns true.
func poll(t *testing.T, what string, try func() bool) {
	t.Helper()
	begun := time.Now()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for !try() {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		if time.Since(begun) > patience {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// await asks until every question has an answer, and prints them.
func (s *server) await(t *testing.T, questions []question) {
	t.Helper()
	var table strings.Builder
	defer func() { t.Log(table.String()) }()
	fmt.Fprintf(&table, "\n%-46s %6s  %s\n", "where", "series", "query, largest sample")
	for _, q := range questions {
		var got []sample
		var err error
		begun := time.Now()
		for len(got) == 0 && time.Since(begun) < patience {
			if got, err = s.query(q.expr); len(got) == 0 {
				<-time.After(200 * time.Millisecond)
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: %s: no data (%v)", q.where, q.expr, err)
			continue
		}
		largest := slices.MaxFunc(got, func(a, b sample) int { return cmp.Compare(a.value, b.value) })
		fmt.Fprintf(&table, "%-46s %6d  %s\n%55s%v\n", q.where, len(got), q.expr, "", largest)
	}
}

// fires waits for an alert and prints how long after a time it began to fire.
func (s *server) fires(t *testing.T, alert string, begun time.Time, what string) {
	t.Helper()
	firing := fmt.Sprintf(`ALERTS{alertname="%s", alertstate="firing"}`, alert)
	var got, first []sample
	poll(t, alert, func() bool { // an error is met by asking again
		got, _ = s.query(firing)
		first, _ = s.query(fmt.Sprintf("min(min_over_time(timestamp(%s)[%ds:1s]))", firing, int(time.Since(begun).Seconds())+1))
		return len(got) > 0 && len(first) > 0
	})
	t.Logf("%-24s %5.1f s %-36s %v", alert, first[0].value-float64(begun.UnixMilli())/1000, what, got[0])
}

// queriesOfDashboards returns what panels and marks ask, with the variables filled in.
func queriesOfDashboards(t *testing.T) (out []question) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(promFolder, "grafana", "dashboards", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "15s", "$__range", "1m", "$job", "weir.*", "$instance", ".*", "$agent", ".*", "$service", ".*", "$tenant", ".*")
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
			Annotations struct{ List []struct{ Name, Expr string } }
		}
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatal(err)
		}
		for _, a := range d.Annotations.List {
			if a.Expr != "" { // first, because a mark of a reload lasts a minute
				out = append(out, question{d.Title + ", marks: " + a.Name, variables.Replace(a.Expr)})
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				out = append(out, question{d.Title + ": " + p.Title, variables.Replace(q.Expr)})
			}
		}
	}
	return out
}

var comparison = regexp.MustCompile(`\s(?:==|<|>)\s(?:10 \* )?`)

// queriesOfRules returns the sides of the comparisons that alerts make: they have data
// also when nothing is wrong.
func queriesOfRules(t *testing.T) (out []question) {
	t.Helper()
	for _, name := range []string{"records.yml", "alerts.yml"} {
		b, err := os.ReadFile(filepath.Join(promFolder, "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		if err := yaml.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				if r.Record != "" {
					out = append(out, question{"record", r.Expr}, question{"record", r.Record})
					continue
				}
				for _, part := range regexp.MustCompile(`\s(?:and on \(job, instance\)|unless on \(job\)|and|or)\s`).Split(r.Expr, -1) {
					if part = strings.TrimSpace(part); strings.HasPrefix(part, "absent(") {
						continue
					}
					for _, side := range comparison.Split(part, -1) {
						if _, err := strconv.ParseFloat(strings.TrimSpace(side), 64); err != nil {
							out = append(out, question{"alert " + r.Alert, strings.Join(strings.Fields(side), " ")})
						}
					}
				}
			}
		}
	}
	return out
}
