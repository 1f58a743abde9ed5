package usage

// The names of counts that several readers share.
var (
	// Anthropic has the names of its API, which reports no total. Input is without what the cache gave.
	Anthropic = Names{
		"input_tokens":                Input,
		"output_tokens":               Output,
		"cache_read_input_tokens":     CacheRead,
		"cache_creation_input_tokens": CacheCreation,
		"cache_creation":              Details,
		"ephemeral_5m_input_tokens":   CacheMinutes,
		"ephemeral_1h_input_tokens":   CacheHour,
	}

	// Codex has those of its transcripts. The total is that of the session. Cached tokens are a part of the
	// input, as reasoning is of the output.
	Codex = Names{
		"input_tokens":             Input,
		"output_tokens":            Output,
		"cached_input_tokens":      CacheRead,
		"cache_write_input_tokens": CacheCreation,
		"reasoning_output_tokens":  Reasoning,
		"total_tokens":             Total,
	}

	// GeminiCLI has those of its transcripts, without a total.
	GeminiCLI = Names{
		"input":    Input,
		"output":   Output,
		"cached":   CacheRead,
		"thoughts": Reasoning,
	}

	// Gemini has the names of its API that are added up; the total is left out.
	Gemini = Names{
		"promptTokenCount":        Input,
		"candidatesTokenCount":    Output,
		"cachedContentTokenCount": CacheRead,
		"thoughtsTokenCount":      Reasoning,
	}
)
