package costs

import (
	"testing"

	"weir/analyzer/prices"
	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// TestUsageForms prices the usage of APIs as they answer it, against sums computed by hand.
func TestUsageForms(t *testing.T) {
	t.Parallel()
	const m = 1_000_000 // millionths of a US dollar in one
	table := prices.Table{
		{Name: "claude-x", Price: prices.Price{Input: 3 * m, CacheRead: 300_000, CacheWrite: 3_750_000, CacheHour: 6 * m, Output: 15 * m, Reasoning: 15 * m}},
		{Name: "deepseek-x", Price: prices.Price{Input: 280_000, CacheRead: 28_000, CacheWrite: 280_000, Output: 420_000, Reasoning: 420_000}},
		{Name: "gemini-x", Price: prices.Price{Input: 1_250_000, CacheRead: 125_000, CacheWrite: 1_250_000, Output: 10 * m, Reasoning: 4 * m}},
		{Name: "gpt-x", Price: prices.Price{Input: 2_500_000, CacheRead: 1_250_000, CacheWrite: 2_500_000, Output: 10 * m, Reasoning: 10 * m}},
		{Name: "grok-x", Price: prices.Price{Input: 3 * m, CacheRead: 750_000, CacheWrite: 3 * m, Output: 15 * m, Reasoning: 15 * m}},
		{Name: "mistral-x", Price: prices.Plain(400_000, 2*m)},
	}
	for name, x := range map[string]struct {
		provider, model, usage string
		want                   int64
	}{
		// 0.2 x 2.50 + 0.8 x 1.25 + 0.5 x 10.00, of which reasoning is a part.
		"OpenAI Responses": {"openai", "gpt-x", `{"input_tokens":1000000,"input_tokens_details":{"cached_tokens":800000},"output_tokens":500000,"output_tokens_details":{"reasoning_tokens":300000},"total_tokens":1500000}`, 6_500_000},
		"OpenAI chat completions": {"openai", "gpt-x", `{"prompt_tokens":1000000,"completion_tokens":500000,"total_tokens":1500000,"prompt_tokens_details":{"cached_tokens":800000,"audio_tokens":0},` +
			`"completion_tokens_details":{"reasoning_tokens":300000,"accepted_prediction_tokens":0}}`, 6_500_000},
		// 0.1 x 3.00 + 0.9 x 0.30 + 0.2 x 3.75 + 0.02 x 15.00
		"Anthropic": {"anthropic", "claude-x", `{"input_tokens":100000,"cache_read_input_tokens":900000,"cache_creation_input_tokens":200000,"output_tokens":20000,"cache_creation":{"ephemeral_5m_input_tokens":200000,"ephemeral_1h_input_tokens":0}}`, 1_620_000},
		// 0.1 x 3.00 + 0.05 x 3.75 + 0.15 x 6.00 + 0.02 x 15.00
		"Anthropic, a part for an hour":     {"anthropic", "claude-x", `{"input_tokens":100000,"cache_creation_input_tokens":200000,"output_tokens":20000,"cache_creation":{"ephemeral_5m_input_tokens":50000,"ephemeral_1h_input_tokens":150000}}`, 1_687_500},
		"Anthropic without the sum of both": {"anthropic", "claude-x", `{"input_tokens":100000,"output_tokens":20000,"cache_creation":{"ephemeral_5m_input_tokens":50000,"ephemeral_1h_input_tokens":150000}}`, 1_687_500},
		"Bedrock Converse, by AWS":          {"aws.bedrock", "claude-x", `{"inputTokens":100000,"outputTokens":20000,"totalTokens":1220000,"cacheReadInputTokens":900000,"cacheWriteInputTokens":200000}`, 1_620_000},
		"Bedrock Converse, a total of two":  {"aws.bedrock", "claude-x", `{"inputTokens":100000,"outputTokens":20000,"totalTokens":120000,"cacheReadInputTokens":900000,"cacheWriteInputTokens":200000}`, 1_620_000},
		// 0.1 x 1.25 + 0.3 x 0.125 + 0.05 x 10.00 + 0.03 x 4.00
		"Gemini": {"google", "gemini-x", `{"promptTokenCount":400000,"cachedContentTokenCount":300000,"candidatesTokenCount":50000,"thoughtsTokenCount":30000,"totalTokenCount":480000}`, 782_500},
		// 0.6 x 3.00 + 0.4 x 0.75 + 0.3 x 15.00: reasoning is beside the completion.
		"xAI": {"xai", "grok-x", `{"prompt_tokens":1000000,"completion_tokens":100000,"total_tokens":1300000,"prompt_tokens_details":{"cached_tokens":400000},"completion_tokens_details":{"reasoning_tokens":200000}}`, 6_600_000},
		// 0.5 x 0.28 + 1.5 x 0.028 + 0.3 x 0.42
		"DeepSeek": {"deepseek", "deepseek-x", `{"prompt_tokens":2000000,"prompt_cache_hit_tokens":1500000,"prompt_cache_miss_tokens":500000,"completion_tokens":300000,"total_tokens":2300000,"completion_tokens_details":{"reasoning_tokens":100000}}`, 308_000},
		// 1 x 0.40 + 0.1 x 2.00
		"Mistral": {"mistral", "mistral-x", `{"prompt_tokens":1000000,"completion_tokens":100000,"total_tokens":1100000,"prompt_audio_seconds":null}`, 600_000},
		// Claude by a gateway in OpenAI's form, whose prompt has the cached tokens: as Anthropic above, with a cost.
		"OpenRouter": {"openrouter", "claude-x", `{"prompt_tokens":1200000,"completion_tokens":20000,"total_tokens":1220000,"cost":1.62,"is_byok":false,"prompt_tokens_details":{"cached_tokens":900000,"cache_write_tokens":200000},` +
			`"cost_details":{"upstream_inference_cost":null}}`, 1_620_000},
	} {
		ev := events.Event{Provider: x.provider, Model: x.model, Usage: usage.Providers.Read(jsonwalk.New([]byte(x.usage)))}
		if got, ok := table.Cost(&ev); !ok || got != x.want {
			t.Errorf("%s: %d millionths, want %d; %+v", name, got, x.want, ev.Usage)
		}
		if reported := ev.Usage.CostMicroUSD; (name == "OpenRouter") != (reported == x.want) {
			t.Errorf("%s reports %d millionths", name, reported)
		}
	}
}
