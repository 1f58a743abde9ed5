package fingerprint

import (
	"bytes"

	"weir/events"
)

// Result returns the fingerprints of what a tool returned. Nil means that the log does not
// report it. A text without content, and a phrase by which a client reports that a command
// printed nothing, are known and all the same: events.EmptyContent.
func Result(text []byte) (events.Hash, events.Fingerprint) {
	switch {
	case text == nil:
		return events.Hash{}, events.Fingerprint{}
	case Empty(text):
		return events.EmptyContent, events.Fingerprint{}
	}
	return Content(text), Text(text)
}

// Empty reports whether a result says no more than that there was no output, which is events.EmptyContent.
func Empty(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return true
	}
	if len(text) > 64 {
		return false
	}
	// Some agents frame what a command printed, and its exit code.
	for _, frame := range [...]string{"<returncode>0</returncode>", "<output>", "</output>"} {
		text = bytes.TrimSpace(bytes.Replace(text, []byte(frame), nil, 1))
	}
	switch string(bytes.ToLower(bytes.Trim(text, "()<>[].\"'` "))) {
	case "", "no output", "empty", "no content", "none", "null",
		"tool ran without output", "tool ran without output or errors", "bash completed with no output",
		"command completed with no output", "command executed successfully with no output", "command ran without output",
		"your command ran successfully and did not produce any output":
		return true
	}
	return false
}
