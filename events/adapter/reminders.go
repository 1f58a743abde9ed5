package adapter

import "bytes"

// reminders are how the notices of coding agents begin and end: of Kimi and Claude Code, and of Hermes.
var reminders = [...]struct{ begin, end string }{
	{"<system-reminder>", "</system-reminder>"},
	{"\n\n[Tool loop warning: ", "]"},
	{"\n\n[Tool loop hard stop: ", "]"},
}

// WithoutReminders returns a result without the notices to the model that a coding agent adds behind it. Some count
// how often a call was repeated, so each of many equal results would be a new one.
func WithoutReminders(said []byte) []byte {
	for again := true; again; {
		again = false
		rest := bytes.TrimRight(said, " \t\r\n")
		for _, of := range reminders {
			if !bytes.HasSuffix(rest, []byte(of.end)) {
				continue
			}
			if i := bytes.LastIndex(rest, []byte(of.begin)); i >= 0 {
				said, again = bytes.TrimRight(rest[:i], " \t\r\n"), true
				break
			}
		}
	}
	return said
}
