package qwencode

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "qwen-code", Format: "qwencode", Sample: "real/qwen/looping.jsonl.gz",
			Known: []string{"qwen"},
			Set:   "Nothing: Qwen Code writes ~/.qwen/projects/CWD/chats/ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay chat.jsonl",
			Flow:  "one prompt of the user",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents, tokens, the answers that end turns.",
			Blind: "What an agent does that was given a task."},
	}
}
