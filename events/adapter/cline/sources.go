package cline

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "cline", Format: "cline", Sample: "real/cline/looping.messages.json.gz",
			Known: []string{"cline-cli"},
			Set:   "Nothing: Cline's command line writes ~/.cline/data/sessions/ID/ID.messages.json for each session, and one beside it for each agent; the folder may be named, too.",
			Run:   "weir replay session.messages.json",
			Flow:  "one prompt of the user; of an agent that was given a task its session",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents and what these do, tokens, the answers that end turns.",
			Blind: "Anything before the file is written anew: it is one document. Five equal calls one after the other end a run of Cline by themselves.",
		},
	}
}
