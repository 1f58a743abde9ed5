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
	resent       bool // with what an earlier call asked for
	baggage      string
	trace        wire.Trace
}

func readParams(raw []byte, ignore map[string][]string) *params {
	p := &params{}
	var args []byte
	c := jsonwalk.New(raw)
	if c.Peek() != '{' {
		return p
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "name":
			p.tool = adapter.Word(c.Text(), events.MaxID)
		case "arguments":
			args = c.Raw()
		case "inputResponses":
			p.resent = c.Peek() == '{'
			c.Skip()
		case "clientInfo":
			p.client = name(c)
		case "_meta":
			p.readMeta(c)
		default:
			c.Skip()
		}
	}
	p.args, p.size = fingerprint.Args(args, ignore[p.tool]), int64(len(args))
	return p
}

func (p *params) readMeta(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "baggage":
			p.baggage = wire.Baggage(c.Text())
		case "traceparent":
			p.trace = wire.Traceparent(c.Text())
		case "io.modelcontextprotocol/clientInfo":
			p.client = name(c)
		default:
			c.Skip()
		}
	}
}

// name reads the name in a clientInfo.
func name(c *jsonwalk.Cursor) (name string) {
	if c.Peek() != '{' {
		c.Skip()
		return ""
	}
	for c.Object(); c.Member(); {
		if string(c.Key()) == "name" {
			name = adapter.Word(c.Text(), events.MaxID)
		} else {
			c.Skip()
		}
	}
	return name
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
	if c.Peek() != '{' {
		return got
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "content":
			text = texts(c)
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
		default:
			c.Skip()
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

// texts joins the texts of the blocks of a result. Blocks without text, such as
// images, count as they are.
func texts(c *jsonwalk.Cursor) []byte {
	if c.Peek() != '[' {
		c.Skip()
		return nil
	}
	var all []byte
	for c.Array(); c.Element(); {
		part := c.Raw()
		if len(part) > 0 && part[0] == '{' {
			whole := part
			inner := jsonwalk.New(whole)
			for inner.Object(); inner.Member(); {
				if string(inner.Key()) == "text" && inner.Peek() == '"' {
					part = inner.Text()
				} else {
					inner.Skip()
				}
			}
		}
		if len(all) > 0 {
			all = append(all, '\n')
		}
		all = append(all, part...)
	}
	return all
}
