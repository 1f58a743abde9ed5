package api

import (
	"fmt"
	"log/slog"
	"sync"

	"weir/analyzer/record"
)

// mostOfName is how many bytes of the name of a file are shown. The sender chose it.
const mostOfName = 256

// transcripts counts the sessions of coding agents whose hook could not read its transcript, by the source of their
// events. Their model calls do not count. There are few sources: one for each program that has hooks.
type transcripts struct {
	mu sync.Mutex
	by map[string]*unreadTranscripts
}

// unreadTranscripts are those of one source.
type unreadTranscripts struct {
	sessions  int64
	file, why string // of the last one
}

// unread counts a session, and logs the first one of its source.
func (t *transcripts) unread(logger *slog.Logger, source, file, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]*unreadTranscripts{}
	}
	file = record.Cut(file, mostOfName)
	u := t.by[source]
	if u == nil {
		u = new(unreadTranscripts)
		t.by[source] = u
		logger.Warn("a hook cannot read the transcript that its agent names, so the tokens of its model calls do not count; later sessions are counted in /readyz", "source", source, "file", file, "why", why)
	}
	u.sessions++
	u.file, u.why = file, why
}

// blind adds a line for each source to what its source does not report.
func (t *transcripts) blind(lines map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for source, u := range t.by {
		line := fmt.Sprintf("sessions whose hook could not read their transcript, so that the tokens of their model calls do not count: %d (the last one %q: %s)", u.sessions, u.file, u.why)
		if lines[source] != "" {
			line = lines[source] + "; " + line
		}
		lines[source] = line
	}
}
