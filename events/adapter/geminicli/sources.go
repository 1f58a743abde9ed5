package geminicli

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "gemini-cli", Format: "geminicli", Sample: "real/gemini/looping.jsonl.gz",
			Known: []string{"gemini"},
			Set:   "Nothing: Gemini CLI writes ~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay session.jsonl",
			Flow:  "one message of the user",
			Sees:  "Uses of tools with arguments and results, tokens, the answers that end turns.",
			Blind: "Calls before their results are there, so that live a loop is seen one call later; in one document per session (older versions) nothing live."},
	}
}
