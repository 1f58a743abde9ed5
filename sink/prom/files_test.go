package prom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"weir/analyzer/budgets"
	"weir/sink/guard"
	"weir/sink/prom/guardprom"
)

// promtool runs Prometheus' own tool, which get.sh finds or fetches.
func promtool(t *testing.T, in []byte, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("Prometheus' own tool runs without -short")
	}
	script := exec.Command("sh", "prometheus/get.sh")
	var why bytes.Buffer
	script.Stderr = &why
	folder, err := script.Output()
	if err != nil {
		t.Fatalf("get promtool: %v\n%s", err, why.String())
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(folder)), "promtool"), args...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("promtool %s\n%s", strings.Join(args, " "), out)
}

func TestRules(t *testing.T) {
	promtool(t, nil, "check", "config", "prometheus/prometheus.yml")
	promtool(t, nil, "test", "rules", "prometheus/alerts_test.yml", "prometheus/surge_test.yml")
}

func TestPromtoolLikesTheMetrics(t *testing.T) {
	w := httptest.NewRecorder()
	New(Options{Read: everything(3), Requests: requests()}).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	promtool(t, w.Body.Bytes(), "check", "metrics")
}

// ruleFile is what the tests want to know of a file of rules.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Record, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T, path string) (f ruleFile) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// sections are the anchors of the headings of a page.
func sections(t *testing.T, path string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			out = append(out, strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-"))
		}
	}
	return out
}

func TestAlertsAreExplainedAndTested(t *testing.T) {
	var tests []byte
	for _, path := range []string{"prometheus/alerts_test.yml", "prometheus/surge_test.yml"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, b...)
	}
	for _, g := range readRules(t, "prometheus/alerts.yml").Groups {
		for _, r := range g.Rules {
			if r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" {
				t.Errorf("%s: no summary or no runbook", r.Alert)
			}
			page, section, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if !slices.Contains(sections(t, "../../"+page), section) {
				t.Errorf("%s: %q names no section of a page", r.Alert, r.Annotations["runbook_url"])
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if !bytes.Contains(tests, []byte(fmt.Sprintf(`ALERTS{alertname="%s", alertstate="firing"}`, r.Alert))) {
				t.Errorf("%s: no test", r.Alert)
			}
		}
	}
}

// known is the names of all metrics that there are, as they stand in expressions.
func known(t *testing.T) map[string]bool {
	t.Helper()
	g, err := guard.Dial("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(guardprom.New(g))
	names := map[string]bool{"up": true}
	read := func(r *Reading) {
		everything(1)(r)
		wasted(1)(r)
		limit := 50.0
		r.Budgets = []budgets.View{{Budget: "team-day", Value: "payments", Limit: &limit, Before: &budgets.PastView{}}}
	}
	for _, gather := range []prometheus.Gatherer{registry, New(Options{Read: read, Requests: requests()}).Registry()} {
		families, err := gather.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			names[f.GetName()] = true
			if f.GetType().String() == "HISTOGRAM" || f.GetType().String() == "SUMMARY" {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					names[f.GetName()+part] = true
				}
			}
		}
	}
	for _, group := range readRules(t, "prometheus/records.yml").Groups {
		for _, r := range group.Rules {
			names[r.Record] = true
		}
	}
	return names
}

var metricName = regexp.MustCompile(`\b(?:weir|go|process|up)[a-z0-9_:]*\b`)

// unknown returns the metrics of an expression that no collector exports.
func unknown(expr string, names map[string]bool) (out []string) {
	bare := regexp.MustCompile(`"[^"]*"|\{[^}]*\}`).ReplaceAllString(expr, "")
	for _, name := range metricName.FindAllString(bare, -1) {
		if !names[name] {
			out = append(out, name)
		}
	}
	return out
}

func TestRulesUseMetricsThatExist(t *testing.T) {
	names := known(t)
	for _, path := range []string{"prometheus/alerts.yml", "prometheus/records.yml"} {
		for _, g := range readRules(t, path).Groups {
			for _, r := range g.Rules {
				if bad := unknown(r.Expr, names); len(bad) > 0 {
					t.Errorf("%s%s: %v are not exported", r.Alert, r.Record, bad)
				}
			}
		}
	}
}

// dashboard is what the tests want to know of a dashboard.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Inputs        json.RawMessage `json:"__inputs"`
	ID            *int
	Panels        []panel
	Templating    struct{ List []struct{ Name, Type string } }
	Annotations   struct{ List []struct{ Name, Expr string } }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct {
		Expr, RefID string
		Datasource  struct{ UID string }
		Instant     bool
		Range       bool
	}
	FieldConfig struct {
		Defaults struct {
			Unit  string
			Links []struct{ URL string }
		}
	}
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	out := make(map[string]dashboard)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[path] = d
	}
	return out
}

// TestDashboards holds what a linter of dashboards would hold.
func TestDashboards(t *testing.T) {
	names := known(t)
	units := []string{"none", "short", "s", "reqps", "Bps", "bytes", "percentunit", "currencyUSD"}
	uids := map[string]bool{}
	pages, err := os.ReadFile("../inspect/page/app.js") // where the inspector lists its pages
	if err != nil {
		t.Fatal(err)
	}
	for path, d := range readDashboards(t) {
		bad := func(p *panel, format string, args ...any) {
			t.Helper()
			t.Errorf("%s, panel %q: %s", path, p.Title, fmt.Sprintf(format, args...))
		}
		if d.UID == "" || uids[d.UID] || d.SchemaVersion < 39 || d.ID != nil || d.Inputs != nil {
			t.Errorf("%s: uid %q, schema %d, or what only an import fills in", path, d.UID, d.SchemaVersion)
		}
		uids[d.UID] = true
		variables := map[string]string{}
		for _, v := range d.Templating.List {
			variables[v.Name] = v.Type
		}
		if variables["datasource"] != "datasource" || variables["job"] != "query" || variables["instance"] != "query" {
			t.Errorf("%s: variables %v", path, variables)
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for i := range d.Panels {
			p := &d.Panels[i]
			if p.ID == 0 || ids[p.ID] {
				bad(p, "id %d is used twice or missing", p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						bad(p, "lies on %q or beyond the edge", other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
				bad(p, "title, description, unit (%q) or query is missing", p.FieldConfig.Defaults.Unit)
			}
			for _, l := range p.FieldConfig.Defaults.Links {
				page, _, _ := strings.Cut(strings.TrimPrefix(l.URL, "${inspector}"), "?")
				if !strings.HasPrefix(l.URL, "${inspector}/") || variables["inspector"] == "" || !bytes.Contains(pages, fmt.Appendf(nil, "{ path: %q,", page)) {
					bad(p, "links to %s", l.URL)
				}
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.RefID == "" || refs[q.RefID] || q.Datasource.UID != "${datasource}" || q.Instant == q.Range {
					bad(p, "query %q has no letter of its own, another data source, or is both instant and range", q.RefID)
				}
				refs[q.RefID] = true
				for _, name := range unknown(q.Expr, names) {
					bad(p, "%s is not exported", name)
				}
				if n := strings.Count(q.Expr, `job=~"$job", instance=~"$instance"`); n == 0 || n != strings.Count(q.Expr, "{") {
					bad(p, "%s: not every metric is selected by job and instance", q.Expr)
				}
				for _, fixed := range regexp.MustCompile(`(?:rate|increase)\([^\[]*\[([^\]]*)\]`).FindAllStringSubmatch(q.Expr, -1) {
					if w := fixed[1]; w != "$__rate_interval" && w != "$__range" && w != "1h" {
						bad(p, "%s: rates over %s", q.Expr, w)
					}
				}
			}
		}
		for _, a := range d.Annotations.List {
			for _, name := range unknown(a.Expr, names) {
				t.Errorf("%s, marks %q: %s is not exported", path, a.Name, name)
			}
		}
	}
}

func TestProvisioning(t *testing.T) {
	for _, path := range []string{"grafana/provisioning/datasources/prometheus.yml", "grafana/provisioning/dashboards/weir.yml"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(b, &doc); err != nil || doc["apiVersion"] != 1 {
			t.Errorf("%s: %v %v", path, doc, err)
		}
	}
}
