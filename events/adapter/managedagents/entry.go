package managedagents

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// entry is one event of a session.
// Which of its members are set depends on its kind.
//
// content, input and failure alias the record.
type entry struct {
	id, kind, session, correlation string
	thread, agent                  string
	// from and to are of messages between threads.
	fromThread, fromAgent string
	toThread, toAgent     string
	at                    events.Stamp
	content               []byte // JSON
	name, server          string
	input                 []byte
	use, request          string // what it is the result, or the end, of
	failed                bool
	failure               []byte
	// stop is why a session is idle, by the type of its reason.
	stop  string
	usage events.Usage
	model string
}

// read reads an event, or the events of a page.
// A page may hold pages only in theory; each element is read as an event.
//
// One bad element spoils the page, as the cursor stops there.
func read(c *jsonwalk.Cursor) []entry {
	var n entry
	var page []entry
	isPage := false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "data":
			isPage = c.Peek() == '['
			for c.MaybeArray(); c.Element(); {
				if c.Peek() == '{' {
					page = append(page, read(c)...)
				}
			}
		case "id":
			n.id = id(c)
		// The type has the area before the point: user, agent, session or span.
		case "type":
			n.kind = string(c.Text())
		case "session_id":
			n.session = id(c)
		case "correlation_id":
			n.correlation = id(c)
		// A thread is one agent at work within the session.
		case "session_thread_id":
			n.thread = id(c)
		case "agent_name":
			n.agent = id(c)
		case "from_session_thread_id":
			n.fromThread = id(c)
		case "from_agent_name":
			n.fromAgent = id(c)
		case "to_session_thread_id":
			n.toThread = id(c)
		case "to_agent_name":
			n.toAgent = id(c)
		// The later of the two members usage.Anthropic.
		case "processed_at", "created_at":
			if at, ok := c.Stamp(); ok {
				n.at = at
			}
		case "content":
			n.content = c.Raw()
		case "name":
			n.name = id(c)
		case "mcp_server_name":
			n.server = id(c)
		case "input":
			n.input = c.Raw()
		// Each kind of tool has a word of its own for the use that a result is of.
		case "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id":
			n.use = id(c)
		// The end of a request names its start, which has the time.
		case "model_request_start_id":
			n.request = id(c)
		case "is_error":
			n.failed = c.Bool()
		// An error is an object; what it says is in message.
		case "error":
			n.failure = c.TextOf("message")
		case "stop_reason":
			n.stop = string(c.TextOf("type"))
		case "model":
			n.model = id(c)
		case "model_usage":
			n.usage = usage.Anthropic.Read(c)
		}
	}
	if isPage {
		return page
	}
	return []entry{n}
}

// id leaves room for what begin puts behind an id.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2-16) }

// text returns the texts of the content: a string, or a list of blocks.
func (n *entry) text() []byte {
	c := jsonwalk.New(n.content)
	if c.Peek() == '"' {
		return c.Text()
	}
	return c.Texts()
}
