package adapter_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// TestTokensAreSummedOnce holds that the usage of a flow is the sum that its framework reports.
// Most logs report the tokens of a request several times: as deltas, as sums over turns, runs and
// agents, and some twice.
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
		if want.tokens > 0 && want.users == 1 { // a flow, or what it used up, begins anew with another one
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

// TestMoneyIsRounded holds that money is kept to the nearest millionth of a dollar by all sources
// alike: 2.01 dollars times a million are a float of a little less than 2,010,000.
func TestMoneyIsRounded(t *testing.T) {
	f := func(format, line string) {
		t.Helper()
		kind, err := registry.Lookup(format)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		emit := func(e *events.Event) {
			if e.Kind == events.LLMCall {
				got = append(got, e.Usage.CostMicroUSD)
			}
		}
		a := kind.New(adapter.Options{})
		if err := errors.Join(a.Decode([]byte(line), emit), a.Flush(emit)); err != nil || !slices.Equal(got, []int64{2_010_000}) {
			t.Errorf("%s: %d, %v", format, got, err)
		}
	}
	f("opencode", `{"info":{"id":"s"},"messages":[{"info":{"id":"m","sessionID":"s","role":"assistant","cost":2.01,"tokens":{"input":50},"modelID":"m",`+
		`"time":{"created":1795350062000,"completed":1795350066000},"finish":"stop"},"parts":[]}]}`)
	f("openhands", `{"id":"s1","timestamp":"2026-11-20T14:00:02Z","source":"environment","key":"stats","kind":"ConversationStateUpdateEvent",`+
		`"value":{"usage_to_metrics":{"default":{"accumulated_cost":2.01,"accumulated_token_usage":{"prompt_tokens":100}}}}}`)
	f("otlplogs", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1771900000000000000","body":{"stringValue":"claude_code.api_request"},"attributes":[`+
		`{"key":"session.id","value":{"stringValue":"s"}},{"key":"cost_usd","value":{"stringValue":"2.01"}}]}]}]}]}`)
	f("otlp", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"chat",`+
		`"startTimeUnixNano":"1790000000000000000","endTimeUnixNano":"1790000001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},`+
		`{"key":"gen_ai.usage.cost","value":{"doubleValue":2.01}}]}]}]}]}`)
	f("map:correlation_id=.flow,time=.ts,kind=.type,kind.llm=llm.call,from=.by,cost_usd=.usd", `{"flow":"f","ts":"2026-11-20T14:00:02Z","type":"llm","by":"a","usd":2.01}`)
}
