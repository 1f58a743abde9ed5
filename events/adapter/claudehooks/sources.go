package claudehooks

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "claude-code-hooks", Format: "claudehooks", Sample: "golden/claudehooks/session.in",
			Set:   "Register for PreToolUse, PostToolUse, UserPromptSubmit, SubagentStop and Stop the command: jq -c '. + {time: (now | todate)}' >> ~/hooks.jsonl",
			Run:   "weir replay hooks.jsonl",
			Flow:  "one prompt of the user (prompt_id), else the session",
			Sees:  "Uses of tools before they happen and after, child agents, ends of turns.",
			Blind: "What no hook is registered for; times and tokens, unless the hook adds them (weir check --hook adds the tokens)."},
	}
}
