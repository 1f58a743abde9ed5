package claudecode

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "claude-code", Format: "claudecode", Sample: "golden/claudecode/files.in",
			Known: []string{"claude"},
			Set:   "Nothing: Claude Code writes transcripts to ~/.claude/projects/PROJECT/SESSION.jsonl and, for child agents, below SESSION/.",
			Run:   "weir replay session.jsonl",
			Flow:  "one prompt of the user (promptId), else the session",
			Sees:  "Prompts, uses of tools with arguments and results, child agents and who called them, tokens.",
			Blind: "Children whose transcripts are not among the files, beyond that they ran."},
	}
}
