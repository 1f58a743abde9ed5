package adapter_test

import (
	"bytes"
	"testing"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
)

// TestTokensAreSummedOnce holds that a flow has used up what its framework says, though
// most logs tell the tokens of a request several times: as deltas, as sums over turns,
// runs and agents, and some twice.
func TestTokensAreSummedOnce(t *testing.T) {
	warned := func(heard []events.Event, at int64) bool {
		limits := analyzer.Balanced()
		limits.Rules[analyzer.RuleInputTokens].Warn = at
		engine, flows := analyzer.New(limits), map[string]*analyzer.Flow{}
		var p analyzer.Partition
		var fx analyzer.Effects
		found := false
		for i := range heard {
			f := flows[heard[i].FlowKey()]
			if f == nil {
				f = &analyzer.Flow{}
				flows[heard[i].FlowKey()] = f
			}
			fx.Reset()
			engine.Step(&p, f, &heard[i], &fx)
			for _, v := range fx.Verdicts {
				found = found || v.Reason == events.MaxTokens
			}
		}
		return found
	}
	f := func(file string, want int64) {
		t.Helper()
		raw := unpacked(t, file)
		for _, in := range [][]byte{raw, append(append(bytes.Clone(raw), '\n'), raw...)} {
			heard := hear(t, bytes.NewReader(in), adapter.Options{}).events
			if !warned(heard, want) || warned(heard, want+1) {
				t.Errorf("%s: the flow did not use up %d input tokens", file, want)
			}
		}
	}
	for _, want := range tracerTruths {
		if want.tokens > 0 && want.file != "openai_agents/honest.jsonl" { // two flows
			f(want.file, want.tokens)
		}
	}
	f("pydantic_ai/honest.otlp.jsonl", 172)
	f("agent_framework/honest.otlp.jsonl", 408)
	f("vercel_ai_sdk/honest.otlp.jsonl", 157)
	f("smolagents/tool_loop.otlp.jsonl", 10114)
	f("smolagents/managed_agent_loop.otlp.jsonl", 12355)
	f("google_adk/tool_loop.events.jsonl", 5040)
}
