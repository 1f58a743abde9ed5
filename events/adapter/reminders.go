package adapter

import "bytes"

// WithoutReminders returns a result without the notices to the model that a coding agent adds behind it, in tags of
// their own. Some count how often a call was repeated, so each of many equal results would be a new one.
func WithoutReminders(said []byte) []byte {
	const begin, end = "<system-reminder>", "</system-reminder>"
	for {
		rest := bytes.TrimRight(said, " \t\r\n")
		if !bytes.HasSuffix(rest, []byte(end)) {
			return said
		}
		i := bytes.LastIndex(rest, []byte(begin))
		if i < 0 {
			return said
		}
		said = bytes.TrimRight(rest[:i], " \t\r\n")
	}
}
