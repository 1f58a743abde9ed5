package mcp

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// params are the parameters of tools/call and initialize, as far as they are of use.
// Both have the client's name, so one reader serves both.
type params struct {
	tool, client string
	// args and size are of the arguments as they stand in the record; nothing of their text is
	// kept.
	args    events.Hash
	size    int64
	resent  bool // because the answer to an earlier one asked for it
	baggage wire.Flow
	trace   wire.Trace
}

// readParams reads the parameters of either method; those that it lacks stay empty.
func readParams(raw []byte, ignore adapter.IgnoreArgs) *params {
	p := &params{}
	var args []byte
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "name":
			p.tool = adapter.Word(c.Text(), events.MaxID)
		case "arguments":
			args = c.Raw()
		// It is an object of answers, one for each question.
		case "inputResponses":
			p.resent = p.resent || c.Peek() == '{'
			c.Skip()
		case "requestState": // alone where nothing is asked for and the client is to look again
			p.resent = p.resent || c.Peek() == '"'
			c.Skip()
		case "clientInfo":
			p.client = adapter.Word(c.TextOf("name"), events.MaxID)
		case "_meta":
			p.readMeta(c)
		}
	}
	// Members come in any order, and which arguments are left out depends on the tool's name:
	// the hash is made last.
	p.args, p.size = fingerprint.Args(args, ignore.Of(p.tool)), int64(len(args))
	return p
}

// readMeta reads _meta, where the protocol has trace contexts and, in some versions, the
// client's name.
func (p *params) readMeta(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "baggage":
			p.baggage = wire.Baggage(c.Text())
		case "traceparent":
			p.trace = wire.Traceparent(c.Text())
		case "io.modelcontextprotocol/clientInfo":
			p.client = adapter.Word(c.TextOf("name"), events.MaxID)
		}
	}
}

// result is how a tool call ended.
//
// The text of a failure is its content as well, so that equal failures are equal results.
type result struct {
	status  events.Status
	failure string // normalised
	said    events.Hash
	sim     events.Fingerprint
	done    deed.Result // what the tool achieved
}

// readResult takes a result in two ways of failing: a JSON-RPC error, and isError of a tool
// that ran. Both are errors of the call.
func readResult(m *wire.Message) result {
	// An error has no result beside it.
	if m.Error != nil {
		failure := m.Failure()
		return result{status: events.StatusError, failure: failure, said: fingerprint.Content([]byte(failure))}
	}
	r := wire.ReadToolResult(m.Result)
	got := result{status: events.StatusOK}
	switch {
	case r.Asks:
		got.status = events.StatusInputRequired
	case r.Failed:
		got.status, got.failure = events.StatusError, fingerprint.Error(r.Text)
	}
	if got.said, got.sim = fingerprint.Result(r.Text); got.said.IsZero() && got.status == events.StatusOK {
		got.said = events.EmptyContent // the response has arrived, without content
	}
	if got.status == events.StatusError && got.said == events.EmptyContent {
		got.said = events.Hash{} // an error without text is judged by its type
	}
	got.done = deed.ResultOf(r.Text)
	return got
}
