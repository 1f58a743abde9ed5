package backtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/costs"
	"weir/events"
)

// spenders is a log in which agent coder of service s1 calls tool read over and over, with an
// inference before each call that says its tokens, and its price or its model.
func spenders(t *testing.T, flow string, n int, usage string) (out []events.Event) {
	t.Helper()
	at := events.Stamp(1_700_000_000_000)
	for i := range n {
		for k, line := range []string{
			`"kind":"llm.call",` + usage,
			`"kind":"tool.call","tool":{"name":"read","call_id":"%[2]d","args_hash":"xxh64:00000000000000aa"}`,
			`"kind":"tool.result","tool":{"name":"read","call_id":"%[2]d"},"content_hash":"xxh64:00000000000000bb"`,
		} {
			if strings.Contains(line, "%") {
				line = fmt.Sprintf(strings.ReplaceAll(line, "[2]", "[1]"), i)
			}
			at += 1000
			line = fmt.Sprintf(`{"id":"%s-%d-%d","source":"s1","time":%q,"correlation_id":%q,"tenant_id":"acme","from":{"agent":"coder"},%s}`, flow, i, k, at.Time().Format("2006-01-02T15:04:05.000Z"), flow, line)
			var ev events.Event
			if err := events.Decode([]byte(line), &ev); err != nil {
				t.Fatal(err, line)
			}
			out = append(out, ev)
		}
	}
	return out
}

func one(t *testing.T, lines []costs.Line, name string) costs.Line {
	t.Helper()
	for _, l := range lines {
		if l.Name == name {
			return l
		}
	}
	t.Errorf("no line %q in %+v", name, lines)
	return costs.Line{}
}

// TestCosts adds up by hand: 6 rounds of 150 tokens, warned at the third call and stopped at the
// fourth, each result.
func TestCosts(t *testing.T) {
	l := limits(t, "profile: none\nrules: {repetition: {warn: 3, stop: 4}}\n")
	count := func(p prices.Table, from events.Stamp, log ...[]events.Event) *costs.Costs {
		trial, err := NewTrial(t.Context(), limitfile.WithPrices(l, p))
		if err != nil {
			t.Fatal(err)
		}
		trial.Count(from)
		for _, part := range log {
			for i := range part {
				trial.Fold(&part[i])
			}
		}
		if got, want := trial.Flows()[0].Tokens, int64(900); got != want {
			t.Errorf("the flow has %d tokens, want %d", got, want)
		}
		return trial.Costs()
	}
	const tokens = `"usage":{"input_tokens":100,"output_tokens":50},"model":"m-1","provider":"p"`
	// After the warning comes one round; the two that follow are after the stop.
	is := func(name string, got costs.Line, all, warned, stopped costs.Spent) {
		t.Helper()
		got.Name = ""
		if want := (costs.Line{All: all, AfterWarning: warned, AfterStop: stopped}); got != want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}
	c := count(nil, 0, spenders(t, "f", 6, tokens))
	is("unknown", c.Total, costs.Spent{Calls: 6, Tokens: 900, Unpriced: 900}, costs.Spent{Calls: 1, Tokens: 150, Unpriced: 150}, costs.Spent{Calls: 2, Tokens: 300, Unpriced: 300})
	is("rule", one(t, c.Rules, "repetition"), costs.Spent{Calls: 3, Tokens: 450, Unpriced: 450}, c.Total.AfterWarning, c.Total.AfterStop)
	is("service", one(t, c.Services, "s1"), c.Total.All, c.Total.AfterWarning, c.Total.AfterStop)
	is("agent", one(t, c.Agents, "coder"), c.Total.All, c.Total.AfterWarning, c.Total.AfterStop)
	is("tenant", one(t, c.Tenants, "acme"), c.Total.All, c.Total.AfterWarning, c.Total.AfterStop)
	is("tool", one(t, c.Tools, "read"), costs.Spent{Calls: 6}, costs.Spent{Calls: 1}, costs.Spent{Calls: 2})
	is("no tool", one(t, c.Tools, ""), costs.Spent{Tokens: 900, Unpriced: 900}, costs.Spent{Tokens: 150, Unpriced: 150}, costs.Spent{Tokens: 300, Unpriced: 300})

	name := filepath.Join(t.TempDir(), "prices.json")
	file := `{"sample_spec":{"input_cost_per_token":0,"output_cost_per_token":"a text"},"p/m-1":{"input_cost_per_token":3e-06,"output_cost_per_token":1.5e-05,"max_tokens":9},"image":{"output_cost_per_image":0.04}}`
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := costs.ReadPrices(name)
	if err != nil || len(p) != 1 {
		t.Fatal(p, err)
	}
	c = count(p, 0, spenders(t, "f", 6, tokens)) // a round costs 100 x 3 + 50 x 15 = 1,050 millionths
	is("price file", c.Total, costs.Spent{Calls: 6, Tokens: 900, Priced: 6300, OfFile: 900}, costs.Spent{Calls: 1, Tokens: 150, Priced: 1050, OfFile: 150}, costs.Spent{Calls: 2, Tokens: 300, Priced: 2100, OfFile: 300})

	c = count(p, 0, spenders(t, "f", 6, `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002},"model":"m-1","provider":"p"`))
	is("reported", c.Total, costs.Spent{Calls: 6, Tokens: 900, Reported: 12000}, costs.Spent{Calls: 1, Tokens: 150, Reported: 2000}, costs.Spent{Calls: 2, Tokens: 300, Reported: 4000})

	c = count(nil, 1_700_000_000_000+16_000, spenders(t, "f", 6, tokens)) // the last round alone
	is("since", c.Total, costs.Spent{Calls: 1, Tokens: 150, Unpriced: 150}, costs.Spent{}, costs.Spent{Calls: 1, Tokens: 150, Unpriced: 150})

	honest := spenders(t, "g", 2, tokens)
	c = count(nil, 0, spenders(t, "f", 6, tokens), honest)
	if c.Total.All.Tokens != 1200 || c.Total.AfterStop.Tokens != 300 {
		t.Errorf("with an honest flow: %+v", c.Total)
	}
}

// TestTokensAreThoseOfTheFlow holds that rules about single parties, which count cached tokens and contexts,
// change no sum of the flow.
func TestTokensAreThoseOfTheFlow(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{"", "max_context_tokens: {warn: 100000}", "max_spawn_context_tokens: {warn: 100000}, context_growth: {warn: 9}", "max_subagent_tokens: {max: 900000}, max_subagent_cost_usd: {max: 50}"} {
		l := limits(t, "profile: none\nprices: {m-1: {input: 3, output: 15, cache_read: 0.3}}\nrules: {max_cost_usd: {max: 50}, "+rules+"}\n")
		trial, err := NewTrial(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		trial.Count(0)
		for _, ev := range spenders(t, "f", 6, `"usage":{"input_tokens":100,"output_tokens":50,"cache_read_input_tokens":5000},"model":"m-1","provider":"anthropic"`) {
			trial.Fold(&ev)
		}
		// A round costs 100 x 3 + 50 x 15 + 5,000 x 0.3 = 2,550 millionths.
		if f, all := trial.Flows()[0], trial.Costs().Total.All; f.Tokens != 900 || f.Cost != 15_300 || all.Tokens != 900 || all.Priced != 15_300 {
			t.Errorf("%q: %d tokens for %d, and in all %+v", rules, f.Tokens, f.Cost, all)
		}
	}
}

func TestPricesThatAreNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p.json")
	for file, want := range map[string]string{`[]`: "cannot unmarshal", `{}`: "no model has", `{"m":{"input_cost_per_token":3,"output_cost_per_token":15}}`: "between 0 and 1"} {
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := costs.ReadPrices(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestCostsInTheReport sees the ledger in the page, the estimate never without what it rests on.
func TestCostsInTheReport(t *testing.T) {
	trial := fold(t, limits(t, "profile: none\nrules: {repetition: {warn: 3, stop: 4}}\n"), false, spenders(t, "f", 6, `"usage":{"input_tokens":100,"output_tokens":50,"cost_usd":0.002}`))
	d := &Document{Title: "t", Report: trial.Report(nil)}
	var page, sheet bytes.Buffer
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := d.Markdown(&sheet); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"What it cost", "coder", "$0.004", costs.SavedAssumption} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

// TestReportOfMany says how many flows a report leaves out, where the costs are unknown says so
// once, and puts what has to be reviewed before the costs.
func TestReportOfMany(t *testing.T) {
	var list []events.Event
	for n := range 501 {
		list = append(list, spenders(t, fmt.Sprintf("f%d", n), 4, `"usage":{"input_tokens":100}`)...)
	}
	trial := fold(t, limits(t, "profile: none\nrules: {repetition: {warn: 3, stop: 4}}\n"), false, list)
	d := &Document{Title: "t", Report: trial.Report(nil)}
	d.WarnsOnly = "some"
	d.BadRecords = 3
	var page, sheet bytes.Buffer
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := d.Markdown(&sheet); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	if !strings.Contains(html, "and 1 more;") || strings.Index(html, `<h2 id="cost">`) > strings.Index(html, `<h2 id="rules">`) || !strings.Contains(html, `href="#cost"`) || !strings.Contains(html, `href="#review"`) || strings.Count(html, "(price unknown)") > 1 {
		t.Errorf("the page: %d times that the price is unknown, review at %d, costs at %d", strings.Count(html, "(price unknown)"), strings.Index(html, "To review"), strings.Index(html, "What it cost"))
	}
	for _, part := range []string{"and 451 more;", "> Only warned: some.", "> 3 records could not be read.", "**501 would be stopped**, 501 warned (the stopped included)"} {
		if !strings.Contains(sheet.String(), part) {
			t.Errorf("the sheet lacks %q", part)
		}
	}
}
