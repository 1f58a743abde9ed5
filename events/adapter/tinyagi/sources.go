package tinyagi

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "tinyagi", Format: "tinyagi", Sample: "golden/tinyagi/rows.in",
			Set:   "sqlite3 -readonly -json tinyagi.db 'SELECT * FROM messages ORDER BY id' > messages.json; weir does not open the database itself.",
			Run:   "weir replay messages.json",
			Flow:  "what follows from the last message of the same sender on the channel, marked as derived: it only warns",
			Sees:  "Every message to an agent, with its sender.",
			Blind: "Tools, answers, tokens and work; rows are deleted a day after they were dealt with."},
	}
}
