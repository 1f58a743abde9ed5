package copilot

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// read reads the frame of an event, and its data only if its kind is used.
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
	// Other kinds hold much text that is not needed.
	switch l.kind {
	case "session.start", "user.message", "assistant.message", "session.usage_record", "assistant.usage",
		"tool.execution_start", "tool.execution_complete", "subagent.started", "abort":
		// The type may stand behind the data, so the data is read last.
		inner := jsonwalk.New(l.data)
		l.readData(inner)
		return l, inner.Err()
	}
	return l, nil
}

// readData reads the data of any kind: the names mean the same in all.
func (l *line) readData(c *jsonwalk.Cursor) {
	word := func() string { return adapter.Word(c.Text(), events.MaxID) }
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "sessionId":
			l.session = adapter.ID(c.Text())
		case "interactionId":
			l.interaction = adapter.ID(c.Text())
		// The use of a tool that the agent of this line works for.
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
		// A text, or a list of parts.
		case "content":
			if c.Peek() == '"' {
				l.content = c.Text()
			} else {
				l.content = c.Texts()
			}
		// How many they are is of no interest: each has an event of its own.
		case "toolRequests":
			for c.MaybeArray(); c.Element(); {
				l.asks = true
				c.Skip()
			}
		// A result that says nothing of it went well.
		case "success":
			l.failed = !c.Bool()
		// A result is an object; what goes to the model is its content.
		case "result":
			l.content = c.TextOf("content")
		// Code and message are of a use that failed or was refused.
		case "error":
			l.readError(c)
		// Newer versions report how a command ended beside its output.
		case "shellExecution":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "exitCode" {
					l.exit, l.exited = c.Int()
				}
			}
		case "usage":
			l.readUsage(c)
		case "outputTokens":
			// It is kept separately as well, for answers that report nothing else.
			l.output, _ = c.Count()
			l.used.Output, l.used.Known = l.output, true
		// Counts stand in the data itself in some versions.
		default:
			if !counts.Member(c, &l.used) {
				c.Skip()
			}
		}
	}
}

// readError reads why a use failed or was refused.
func (l *line) readError(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "message":
			l.message = c.Text()
		case "code":
			l.code = string(c.Text())
		}
	}
}

// readUsage reads what an answer used up, in an object of its own.
//
// It names the model and the call of the API as well, which other versions put beside it.
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

// counts are the SDK's names.
var counts = usage.Names{
	"inputTokens":      usage.Input,
	"outputTokens":     usage.Output,
	"cacheReadTokens":  usage.CacheRead,
	"cacheWriteTokens": usage.CacheCreation,
	"reasoningTokens":  usage.Reasoning,
}
