package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/costs"
	"weir/events"
)

// wasteful is rounds n to m of a flow whose agent coder makes one call over and over, with an
// inference of 100 and 50 tokens before each.
func wasteful(fake *clock.Fake, flow string, n, m int, usage string) string {
	var b strings.Builder
	at := events.StampOf(fake.Now())
	for i := n; i < m; i++ {
		for k, line := range []string{
			`"kind":"llm.call",` + usage,
			fmt.Sprintf(`"kind":"tool.call","tool":{"name":"read","call_id":"%d","args_hash":"xxh64:00000000000000aa"}`, i),
			fmt.Sprintf(`"kind":"tool.result","tool":{"name":"read","call_id":"%d"},"content_hash":"xxh64:00000000000000bb"`, i),
		} {
			fmt.Fprintf(&b, `{"id":"%s-%d-%d","source":"s1","time":%q,"correlation_id":%q,"tenant_id":"acme","from":{"agent":"coder"},%s}`+"\n",
				flow, i, k, at.Add(time.Duration(3*i+k)*10*time.Millisecond).Time().Format("2006-01-02T15:04:05.000Z"), flow, line)
		}
	}
	return b.String()
}

// TestCostsOfTrees adds up by hand what two flows spend after their tree was warned and stopped, of
// which neither was: it stands under the rule of the tree, and is there before anything happens.
func TestCostsOfTrees(t *testing.T) {
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_tree_tokens: {warn: 300, stop: 600}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{Metrics: "127.0.0.1:0", Limits: limits})
	r.scraped(
		`weir_waste_by_rule_calls_total{after="stop",rule="max_tree_tokens_exceeded"} 0`,
		`weir_waste_by_rule_tokens_total{after="warning",price="reported",rule="max_tree_tokens_exceeded"} 0`,
		`weir_waste_by_rule_usd_total{after="stop",price="reported",rule="max_tree_tokens_exceeded"} 0`,
	)
	// Rounds of 150 tokens: the tree is warned by the second and stopped by the fourth of six.
	for _, flow := range []string{"one", "two"} {
		lines := wasteful(r.fake, flow, 0, 3, `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002}`)
		r.want(r.do("POST", "/v1/events", strings.ReplaceAll(lines, `"tenant_id"`, `"root_correlation_id":"top","tenant_id"`)), 202)
		r.folded()
	}
	r.scraped(
		`weir_waste_by_rule_calls_total{after="warning",rule="max_tree_tokens_exceeded"} 2`,
		`weir_waste_by_rule_calls_total{after="stop",rule="max_tree_tokens_exceeded"} 3`,
		`weir_waste_by_rule_tokens_total{after="warning",price="reported",rule="max_tree_tokens_exceeded"} 300`,
		`weir_waste_by_rule_tokens_total{after="stop",price="reported",rule="max_tree_tokens_exceeded"} 300`,
		`weir_waste_by_rule_usd_total{after="stop",price="reported",rule="max_tree_tokens_exceeded"} 0.004`,
		`weir_spent_tokens_total{after="nothing",price="reported"} 900`, // neither flow was judged itself
	)
}

// TestCosts adds up by hand what is spent after a warning and after a stop, in metrics and as weir
// costs asks for it, before and after a restart: metrics begin anew, but what a flow was stopped
// for before is known.
func TestCosts(t *testing.T) {
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`{"m-1":{"input_cost_per_token":3e-06,"output_cost_per_token":1.5e-05}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {repetition: {warn: 3, stop: 4}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{StateDir: t.TempDir(), Metrics: "127.0.0.1:0", Limits: limits, PricesFile: prices}
	const (
		priced   = `"usage":{"input_tokens":100,"output_tokens":50},"model":"m-1"` // 1,050 millionths
		unknown  = `"usage":{"input_tokens":100,"output_tokens":50},"model":"m-2"`
		reported = `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002}`
	)
	r := begin(t, o)
	// Warned by the third round and stopped by the fourth: one round after the warning, two after the stop.
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "f", 0, 6, priced)), 202)
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "g", 0, 5, unknown)), 202)
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "honest", 0, 2, reported)), 202)
	asked := strings.Split(wasteful(r.fake, "f", 6, 7, priced), "\n")[1]
	asked = strings.Replace(asked, `"kind":"tool.call"`, `"kind":"tool.call","ask":true`, 1)
	r.want(r.do("POST", "/v1/check", asked), 403) // was refused, and so not called
	r.folded()
	r.scraped(
		`weir_spent_tokens_total{after="warning",price="file"} 150`,
		`weir_spent_tokens_total{after="stop",price="file"} 300`,
		`weir_spent_tokens_total{after="stop",price="unknown"} 150`,
		`weir_spent_tokens_total{after="nothing",price="reported"} 300`,
		`weir_spent_usd_total{after="stop",price="file"} 0.0021`,
		`weir_spent_usd_total{after="nothing",price="reported"} 0.004`,
		`weir_spent_calls_total{after="stop"} 3`,
		`weir_waste_by_rule_tokens_total{after="stop",price="file",rule="repetition_detected"} 300`,
		`weir_waste_by_rule_calls_total{after="stop",rule="repetition_detected"} 3`,
		`weir_waste_by_service_tokens_total{after="stop",price="unknown",service="s1"} 150`,
		`weir_waste_by_agent_usd_total{after="stop",agent="coder",price="file"} 0.0021`,
		`weir_waste_by_tool_calls_total{after="stop",tool="read"} 3`,
		`weir_waste_by_tenant_tokens_total{after="warning",price="file",tenant="acme"} 150`,
	)
	var told costs.Report
	r.get("/v1/costs?since=24h", &told)
	if s := told.Total.AfterStop; s.Calls != 3 || s.Tokens != 450 || s.Priced != 2100 || s.Unpriced != 150 || told.Saved != s || told.Assumption == "" {
		t.Errorf("asked: %+v", told.Total)
	}
	if len(told.Rules) != 1 || told.Rules[0].Name != "repetition" || told.Rules[0].AfterStop != told.Total.AfterStop {
		t.Errorf("rules: %+v", told.Rules)
	}
	r.want(r.do("GET", "/v1/costs?since=yesterday", ""), 400, "168h")
	r.stop()

	o.Clock = r.fake
	r = begin(t, o)
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "f", 7, 8, reported)), 202)
	r.folded()
	r.scraped(`weir_spent_tokens_total{after="stop",price="reported"} 150`, `weir_waste_by_agent_usd_total{after="stop",agent="coder",price="reported"} 0.002`)
}
