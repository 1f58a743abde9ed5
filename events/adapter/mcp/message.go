package mcp

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// params are the parameters of tools/call and initialize, as far as they are of use.
type params struct {
	tool, client string
	args         events.Hash
	size         int64
	resent       bool // because the answer to an earlier one asked for it
	baggage      wire.Flow
	trace        wire.Trace
}

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
	p.args, p.size = fingerprint.Args(args, ignore.Of(p.tool)), int64(len(args))
	return p
}

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
type result struct {
	status  events.Status
	failure string // normalised
	said    events.Hash
	sim     events.Fingerprint
}

func readResult(m *wire.Message) result {
	if m.Error != nil {
		failure := m.Failure()
		return result{status: events.StatusError, failure: failure, said: fingerprint.Content([]byte(failure))}
	}
	var text, structured []byte
	got := result{status: events.StatusOK}
	c := jsonwalk.New(m.Result)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "content":
			text = c.Texts()
		case "structuredContent":
			structured = c.Raw()
		case "isError":
			if c.Bool() {
				got.status = events.StatusError
			}
		case "resultType":
			if string(c.Text()) == "input_required" {
				got.status = events.StatusInputRequired
			}
		}
	}
	if len(text) == 0 {
		text = structured
	}
	got.said, got.sim = fingerprint.Content(text), fingerprint.Text(text)
	if got.status == events.StatusError {
		got.failure = fingerprint.Error(text)
	}
	return got
}
