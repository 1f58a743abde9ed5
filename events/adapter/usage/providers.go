package usage

// Providers are the names of counts in the answers of APIs: OpenAI (chat completions and Responses), Anthropic,
// Gemini, Bedrock (Converse), DeepSeek, xAI, Mistral and OpenRouter. They do not contradict each other.
var Providers = Names{
	// OpenAI, and most others in its form. Details are parts of the sums beside them; xAI's reasoning is beside
	// the completion, which its total says.
	"prompt_tokens": Input, "completion_tokens": Output, "input_tokens": Input, "output_tokens": Output, "total_tokens": Total,
	"prompt_tokens_details": Details, "input_tokens_details": Details, "completion_tokens_details": Details, "output_tokens_details": Details,
	"cached_tokens": CacheRead, "cache_write_tokens": CacheCreation, "reasoning_tokens": Reasoning,
	"prompt_cache_hit_tokens": CacheRead, // DeepSeek
	"num_cached_tokens":       CacheRead, // Mistral
	"cost":                    Cost,      // OpenRouter

	"cache_read_input_tokens": CacheRead, "cache_creation_input_tokens": CacheCreation, "cache_creation": Details,
	"ephemeral_5m_input_tokens": CacheMinutes, "ephemeral_1h_input_tokens": CacheHour,

	"promptTokenCount": Input, "candidatesTokenCount": Output, "totalTokenCount": Total, "cachedContentTokenCount": CacheRead, "thoughtsTokenCount": Reasoning,

	"inputTokens": Input, "outputTokens": Output, "totalTokens": Total, "cacheReadInputTokens": CacheRead, "cacheWriteInputTokens": CacheCreation,
}
