package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/costs"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/otlp"
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
	// The tree has both flows below the root, which had no event itself.
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "top", 0, 1, `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002}`)), 202)
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "beside", 0, 1, `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002}`)), 202)
	r.folded()
	for _, path := range []string{"/v1/flows/top/costs", "/v1/inspect/costs?flow=top"} {
		var tree costs.Tree
		if r.get(path, &tree); len(tree.Nodes) != 9 || tree.Nodes[0].All != (costs.Spent{Calls: 7, Tokens: 1050, Reported: 14_000}) || tree.Nodes[0].Own != (costs.Spent{}) {
			t.Errorf("%s: %+v", path, tree.Nodes)
		}
	}
	r.want(r.do("GET", "/v1/flows/absent/costs", ""), 404)
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

// TestCostsWithoutPrices asks a weir without prices and without a limit in dollars: a model with a built-in price
// has its price, as in a log, and a model without one has none.
func TestCostsWithoutPrices(t *testing.T) {
	r := begin(t, Options{})
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "f", 0, 1, `"usage":{"input_tokens":1000000},"model":"claude-sonnet-5"`)), 202)
	r.want(r.do("POST", "/v1/events", wasteful(r.fake, "g", 0, 1, `"usage":{"input_tokens":10},"model":"own-model"`)), 202)
	r.folded()
	price, ok := costs.BuiltIn().Find("", "claude-sonnet-5")
	if !ok {
		t.Fatal("the model has no built-in price any more; take another one")
	}
	var all costs.Report
	if r.get("/v1/costs", &all); all.Total.All.Priced != price.Input || all.Total.All.Unpriced != 10 {
		t.Errorf("%+v, want %d", all.Total.All, price.Input)
	}
	if want := (costs.UnpricedModel{Model: "own-model", Calls: 1, Tokens: 10}); len(all.Unpriced) != 1 || all.Unpriced[0] != want || all.Advice == "" {
		t.Errorf("without a price: %+v, %q", all.Unpriced, all.Advice)
	}
	var tree costs.Tree
	if r.get("/v1/flows/f/costs", &tree); tree.Nodes[0].All.Priced != price.Input || tree.Nodes[0].All.Unpriced != 0 || len(tree.Unpriced) != 0 || tree.Advice != "" {
		t.Errorf("%+v, %+v", tree.Nodes[0].All, tree.Unpriced)
	}
	if r.get("/v1/flows/g/costs", &tree); len(tree.Unpriced) != 1 || tree.Unpriced[0].Model != "own-model" {
		t.Errorf("%+v", tree.Unpriced)
	}
}

// attribute is one of a span, with a comma behind it.
func attribute(key, value string) string {
	return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}},`, key, value)
}

// TestPricesOfProviders holds that the same prices give the same dollars everywhere, for the usage
// forms of five providers, against sums computed by hand.
func TestPricesOfProviders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(file, []byte(`{
		"gpt-x": {"input_cost_per_token": 2.5e-06, "cache_read_input_token_cost": 1.25e-06, "output_cost_per_token": 1e-05, "input_cost_per_token_batches": 1.25e-06, "output_cost_per_token_batches": 5e-06},
		"claude-x": {"input_cost_per_token": 3e-06, "cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06, "output_cost_per_token": 1.5e-05},
		"gemini/gemini-x": {"input_cost_per_token": 1.25e-06, "cache_read_input_token_cost": 1.25e-07, "output_cost_per_token": 1e-05, "output_cost_per_reasoning_token": 4e-06},
		"nova-x": {"input_cost_per_token": 8e-07, "cache_read_input_token_cost": 2e-07, "output_cost_per_token": 3.2e-06},
		"deepseek-x": {"input_cost_per_token": 2.8e-07, "cache_read_input_token_cost": 2.8e-08, "output_cost_per_token": 4.2e-07}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := costs.ReadPrices(file)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_cost_usd: {max: 12}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	requests := []struct {
		usage string
		micro int64
	}{
		// OpenAI counts cached tokens in the input and reasoning in the output:
		// 0.2 x 2.50 + 0.8 x 1.25 + 0.5 x 10.00 = 6.50.
		{`"provider":"openai","model":"gpt-x-2026-08-06","usage":{"input_tokens":1000000,"cache_read_input_tokens":800000,"output_tokens":500000,"reasoning_output_tokens":300000,"total_tokens":1500000}`, 6_500_000},
		// Anthropic counts them beside it, without a total:
		// 0.1 x 3.00 + 0.9 x 0.30 + 0.2 x 3.75 + 0.02 x 15.00 = 1.62.
		{`"provider":"anthropic","model":"claude-x","usage":{"input_tokens":100000,"cache_read_input_tokens":900000,"cache_creation_input_tokens":200000,"output_tokens":20000}`, 1_620_000},
		// A cache that keeps its tokens an hour costs more to write:
		// 0.1 x 3.00 + 0.05 x 3.75 + 0.15 x 6.00 + 0.02 x 15.00 = 1.6875.
		{`"provider":"anthropic","model":"claude-x","usage":{"input_tokens":100000,"cache_creation_input_tokens":200000,"cache_creation_1h_input_tokens":150000,"output_tokens":20000}`, 1_687_500},
		// Google counts cached tokens in the prompt, and thoughts beside the candidates:
		// 0.1 x 1.25 + 0.3 x 0.125 + 0.05 x 10.00 + 0.03 x 4.00 = 0.7825.
		{`"provider":"gemini","model":"gemini-x","usage":{"input_tokens":400000,"cache_read_input_tokens":300000,"output_tokens":50000,"reasoning_output_tokens":30000,"total_tokens":480000}`, 782_500},
		// Bedrock counts cached tokens beside the input and in the total:
		// 0.2 x 0.80 + 1 x 0.20 + 0.1 x 3.20 = 0.68.
		{`"provider":"aws.bedrock","model":"nova-x","usage":{"input_tokens":200000,"cache_read_input_tokens":1000000,"output_tokens":100000,"total_tokens":1300000}`, 680_000},
		// DeepSeek counts cache hits in the prompt: 0.5 x 0.28 + 1.5 x 0.028 + 0.3 x 0.42 = 0.308.
		{`"provider":"deepseek","model":"deepseek-x","usage":{"input_tokens":2000000,"cache_read_input_tokens":1500000,"output_tokens":300000,"total_tokens":2300000}`, 308_000},
		// The first as a batch, at half the price: 0.2 x 1.25 + 0.8 x 0.625 + 0.5 x 5.00 = 3.25.
		{`"provider":"openai","model":"gpt-x-2026-08-06","usage":{"input_tokens":1000000,"cache_read_input_tokens":800000,"output_tokens":500000,"reasoning_output_tokens":300000,"total_tokens":1500000,"batch":true}`, 3_250_000},
	}
	r := begin(t, Options{Metrics: "127.0.0.1:0", Limits: limits, PricesFile: file})
	trial, err := backtest.NewTrial(t.Context(), limitfile.WithPrices(limits, table))
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	var flow struct {
		CostUSD float64 `json:"cost_usd"`
	}
	for i, q := range requests {
		line := fmt.Sprintf(`{"id":"u-%d","source":"s1","time":%q,"correlation_id":"f","from":{"agent":"coder"},"kind":"llm.call",%s}`+"\n",
			i, events.StampOf(r.fake.Now()).Add(time.Duration(i)*time.Millisecond).Time().Format("2006-01-02T15:04:05.000Z"), q.usage)
		r.want(r.do("POST", "/v1/events", line), 202)
		r.folded()
		var ev events.Event
		if err := events.Decode([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		trial.Fold(&ev)
		sum += q.micro
		if r.get("/v1/flows/f", &flow); int64(flow.CostUSD*1e6+0.5) != sum {
			t.Errorf("page after %s: %v US dollars, want %d millionths", q.usage, flow.CostUSD, sum)
		}
		if got := trial.Costs().Total.All; got.Priced != sum || got.Unpriced != 0 || trial.Flows()[0].Cost != sum {
			t.Errorf("backtest after %s: %+v and %d, want %d millionths", q.usage, got, trial.Flows()[0].Cost, sum)
		}
	}
	r.scraped(`weir_spent_usd_total{after="nothing",price="file"} 14.828`)
	var told costs.Report
	if r.get("/v1/costs", &told); told.Total.All.Priced != 14_828_000 || told.Total.All.Reported != 0 {
		t.Errorf("costs: %+v", told.Total)
	}
	var tree costs.Tree
	if r.get("/v1/flows/f/costs", &tree); tree.Nodes[0].All.Priced != 14_828_000 || trial.Costs().Total.All.Priced != 14_828_000 {
		t.Errorf("the tree: %+v", tree.Nodes[0])
	}
	// Spans with old and new names of attributes cost the same as the second request.
	for _, written := range []string{"gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.cache_write.input_tokens"} {
		span := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b000000000000003","name":"chat","startTimeUnixNano":"1771900001200000000","endTimeUnixNano":"1771900001300000000","attributes":[` +
			attribute("gen_ai.operation.name", "chat") + attribute("gen_ai.provider.name", "anthropic") + attribute("gen_ai.request.model", "claude-x") + attribute("gen_ai.usage.input_tokens", "100000") +
			attribute("gen_ai.usage.cache_read.input_tokens", "900000") + attribute(written, "200000") + strings.TrimSuffix(attribute("gen_ai.usage.output_tokens", "20000"), ",") + `]}]}]}]}`
		read := otlp.Format().New(adapter.Options{})
		cost, n := int64(0), 0
		emit := func(ev *events.Event) {
			if ev.Kind == events.LLMCall {
				cost, _ = table.Cost(ev)
				n++
			}
		}
		if err := errors.Join(read.Decode([]byte(span), emit), read.Flush(emit)); err != nil || n != 1 || cost != 1_620_000 {
			t.Errorf("%s: %d requests for %d millionths, %v", written, n, cost, err)
		}
	}
	// The last request went above the twelve dollars.
	r.want(r.do("POST", "/v1/check", `{"id":"c","source":"s1","time":"`+events.RFC3339(events.StampOf(r.fake.Now())).String()+`","correlation_id":"f","from":{"agent":"coder"},"to":{"agent":"b"},"kind":"agent.call"}`), 402, "max_cost_exceeded", "14.828")
}
