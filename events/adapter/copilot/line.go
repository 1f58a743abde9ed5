package copilot

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

func read(record []byte) (*line, error) {
	l := &line{}
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			l.id = adapter.ID(c.Text())
		case "type":
			l.kind = string(c.Text())
		case "timestamp":
			l.at, _ = c.Stamp()
		case "agentId":
			l.agent = adapter.ID(c.Text())
		case "data":
			l.data = c.Raw()
		}
	}
	c.End()
	switch {
	case c.Err() != nil:
		return nil, c.Err()
	case l.kind == "":
		return nil, adapter.Missing("type", "want type of every event")
	case l.id == "":
		return nil, adapter.Missing("id", "want id of every event")
	case l.at == 0:
		return nil, adapter.Missing("timestamp", "want timestamp of every event")
	}
	switch l.kind {
	case "session.start", "user.message", "assistant.message", "session.usage_record", "assistant.usage",
		"tool.execution_start", "tool.execution_complete", "subagent.started", "abort":
		inner := jsonwalk.New(l.data)
		l.readData(inner)
		return l, inner.Err()
	}
	return l, nil
}

func (l *line) readData(c *jsonwalk.Cursor) {
	word := func() string { return adapter.Word(c.Text(), events.MaxID) }
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "sessionId":
			l.session = adapter.ID(c.Text())
		case "interactionId":
			l.interaction = adapter.ID(c.Text())
		case "parentToolCallId":
			l.parentUse = adapter.ID(c.Text())
		case "toolCallId":
			l.call = adapter.ID(c.Text())
		case "apiCallId":
			l.api = adapter.ID(c.Text())
		case "toolName":
			l.tool = word()
		case "mcpServerName":
			l.server = word()
		case "model":
			l.model = word()
		case "arguments":
			l.args = c.Raw()
		case "content":
			if c.Peek() == '"' {
				l.content = c.Text()
			} else {
				l.content = c.Texts()
			}
		case "toolRequests":
			for c.MaybeArray(); c.Element(); {
				l.asks = true
				c.Skip()
			}
		case "success":
			l.failed = !c.Bool()
		case "result":
			l.content = c.TextOf("content")
		case "error":
			for c.MaybeObject(); c.Member(); {
				switch string(c.Key()) {
				case "message":
					l.message = c.Text()
				case "code":
					l.code = string(c.Text())
				}
			}
		case "shellExecution":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "exitCode" {
					l.exit, l.exited = c.Int()
				}
			}
		case "usage":
			l.readUsage(c)
		case "outputTokens":
			l.output, _ = c.Count()
			l.used.Output, l.used.Known = l.output, true
		default:
			if !counts.Member(c, &l.used) {
				c.Skip()
			}
		}
	}
}

// readUsage reads what an answer used up, in an object of its own.
func (l *line) readUsage(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case "apiCallId":
			l.api = adapter.ID(c.Text())
		default:
			if !counts.Member(c, &l.used) {
				c.Skip()
			}
		}
	}
}

var counts = usage.Names{
	"inputTokens":      usage.Input,
	"outputTokens":     usage.Output,
	"cacheReadTokens":  usage.CacheRead,
	"cacheWriteTokens": usage.CacheCreation,
	"reasoningTokens":  usage.Reasoning,
}
