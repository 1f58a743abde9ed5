package adapter

import (
	"bytes"

	"weir/events"
	"weir/events/fingerprint"
)

// Echoes finds prompts that a program sends again and again in the place of the user: the same text
// as the two prompts before, each right after the agent has ended its work. A person may send a
// prompt twice. It is for one goroutine.
type Echoes struct{ last *Recent[echo] } // by session

// echo is the last prompt of a session, and the time of its last record.
type echo struct {
	content events.Hash // see EchoOf
	at      events.Stamp
	again   bool // it was the same as the one before, as soon
}

// echoSoon is within which time of the last record no person writes the same prompt again, in
// milliseconds.
const echoSoon = 5_000

// NewEchoes returns a memory of at most most sessions.
func NewEchoes(most int) *Echoes { return &Echoes{last: NewRecent[echo](most)} }

// EchoOf returns a hash of a prompt without its numbers: programs count what they send.
func EchoOf(text []byte) events.Hash {
	return fingerprint.Content(bytes.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text))
}

// Prompt takes a prompt of the session, by EchoOf, and reports whether it repeats the two before so
// soon that a program wrote it.
func (e *Echoes) Prompt(session string, content events.Hash, at events.Stamp) bool {
	before, known := e.last.Get(session)
	again := known && !content.IsZero() && content == before.content && at.Sub(before.at).Milliseconds() < echoSoon
	e.last.Put(session, echo{content, max(at, before.at), again})
	return again && before.again
}

// Passed takes the time of another record of the session.
func (e *Echoes) Passed(session string, at events.Stamp) {
	if before, known := e.last.Get(session); known && at > before.at {
		before.at = at
		e.last.Put(session, before)
	}
}
