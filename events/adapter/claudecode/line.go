package claudecode

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// line is one line of a transcript, as far as it is of use.
type line struct {
	kind                                 string
	uuid, parent, session, agent, prompt string
	sidechain, meta                      bool
	at                                   events.Stamp
	message, model                       string
	ended                                bool // the model ended its turn
	apiError                             bool
	failed                               string // the error of the model's service, normalised
	usage                                events.Usage
	blocks                               []block
	text                                 []byte // of all text blocks
	refused                              bool   // a Stop hook did not let the turn end
	said                                 events.Hash
	sim                                  events.Fingerprint
	resultAgent                          string // agent that the tool ran
	resultTools                          int64  // tool calls of that agent
	launched                             bool   // it runs on
}

// block is one part of a message.
type block struct {
	kind, id, name string
	args           events.Hash // of the arguments
	argsSize       int64
	agentKind      string
	said           events.Hash        // of a result, or of the prompt of an agent
	sim            events.Fingerprint // of the same, or of the arguments of a tool that runs none
	failed         bool
	failure        string
	size           int64 // of a result
	notMade        bool  // the call was given up because one beside it failed
}

// read reads the first value of a record and returns where it ends. The line is nil when it
// tells nothing of agents and tools.
func read(record []byte, ignore adapter.IgnoreArgs) (l *line, n int, err error) {
	l = &line{}
	known := false
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.kind = string(c.Text())
			known = true
		case "toolUseId": // the note that lies beside a child's transcript
			c.Skip()
			known = true
		case "uuid":
			l.uuid = id(c)
		case "parentUuid":
			l.parent = id(c)
		case "sessionId":
			l.session = id(c)
		case "agentId":
			l.agent = id(c)
		case "promptId":
			l.prompt = id(c)
		case "isSidechain":
			l.sidechain = c.Bool()
		case "isMeta", "isCompactSummary":
			if c.Bool() {
				l.meta = true
			}
		case "isApiErrorMessage":
			l.apiError = c.Bool()
		case "timestamp":
			if at, ok := events.ParseStamp(string(c.Text())); ok {
				l.at = at
			}
		case "message":
			l.readMessage(c, ignore)
		case "toolUseResult":
			l.readResult(c)
		}
	}
	n = c.Offset()
	missing := func(field string) error {
		return adapter.Missing(field, "want "+field+" on every line of a transcript that has a message")
	}
	switch {
	case c.Err() != nil:
		return nil, n, c.Err()
	case !known:
		return nil, n, missing("type")
	case l.kind != "user" && l.kind != "assistant":
		return nil, n, nil
	case l.session == "":
		return nil, n, missing("sessionId")
	case l.at == 0:
		return nil, n, missing("timestamp")
	case l.uuid == "" && l.message == "":
		return nil, n, missing("uuid")
	}
	if l.kind == "user" || l.ended {
		l.said, l.sim = fingerprint.Content(l.text), fingerprint.Text(l.text)
	}
	if l.apiError {
		l.failed = fingerprint.Error(l.text)
	}
	l.refused = l.meta && bytes.HasPrefix(l.text, stopFeedback)
	l.text = nil
	return l, n, nil
}

// id reads an id. Half the room of an event's id is left for what is put behind it.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2-16) }

func (l *line) readMessage(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			l.message = id(c)
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case "stop_reason":
			l.ended = string(c.Text()) == "end_turn"
		case "usage":
			l.usage = counts.Read(c)
		case "content":
			if c.Peek() == '[' {
				for c.Array(); c.Element(); {
					l.readBlock(c, ignore)
				}
			} else {
				l.text = append(l.text, c.Text()...)
			}
		}
	}
}

var counts = usage.Names{
	"input_tokens":                usage.Input,
	"output_tokens":               usage.Output,
	"cache_read_input_tokens":     usage.CacheRead,
	"cache_creation_input_tokens": usage.CacheCreation,
}

func (l *line) readBlock(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	var b block
	var text, said, input []byte
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			b.kind = string(c.Text())
		case "id", "tool_use_id":
			b.id = id(c)
		case "name":
			b.name = adapter.Word(c.Text(), events.MaxID)
		case "text":
			text = c.Text()
		case "input":
			input = c.Raw()
		case "content":
			said = texts(c)
		case "is_error":
			b.failed = c.Bool()
		}
	}
	switch b.kind {
	case "text":
		if len(l.text) > 0 {
			l.text = append(l.text, '\n')
		}
		l.text = append(l.text, text...)
	case "tool_result":
		b.said, b.sim = fingerprint.Content(said), fingerprint.Text(said)
		b.size = int64(max(1, len(said)))
		b.notMade = b.failed && bytes.Contains(said, siblingFailed)
		if b.failed {
			b.failure = fingerprint.Error(said)
		}
	case "tool_use":
		b.readArguments(input, ignore)
	}
	if b.kind != "text" {
		l.blocks = append(l.blocks, b)
	}
}

// siblingFailed is the result of a call that was not made, because one of those that were made
// beside it failed.
var siblingFailed = []byte("Sibling tool call errored")

// readArguments reads what a tool is called with, or, of one that runs an agent, what that is
// asked to do.
func (b *block) readArguments(input []byte, ignore adapter.IgnoreArgs) {
	if b.readPrompt(input); delegates(b) {
		return
	}
	b.args, b.argsSize, b.sim = fingerprint.Args(input, ignore.Of(b.name)), int64(len(input)), fingerprint.Text(input)
}

// readPrompt looks into the arguments of a tool that may run an agent.
func (b *block) readPrompt(input []byte) {
	if b.name != "Agent" && b.name != "Task" || len(input) == 0 || input[0] != '{' {
		return
	}
	c := jsonwalk.New(input)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "prompt":
			p := c.Text()
			b.said, b.sim = fingerprint.Content(p), fingerprint.Text(p)
		case "subagent_type":
			b.agentKind = adapter.Word(c.Text(), events.MaxID)
		}
	}
}

// texts reads the content of a result: a string, or a list of parts of which the
// texts are joined. Parts without text count as they are.
func texts(c *jsonwalk.Cursor) []byte {
	if c.Peek() == '"' {
		return c.Text()
	}
	content := c.Raw()
	if len(content) == 0 || content[0] != '[' {
		return content
	}
	c = jsonwalk.New(content)
	var parts [][]byte
	for c.Array(); c.Element(); {
		raw := c.Raw()
		part := raw
		if len(raw) > 0 && raw[0] == '{' {
			inner := jsonwalk.New(raw)
			for inner.Object(); inner.Member(); {
				if string(inner.Key()) == "text" {
					part = inner.Text()
				}
			}
		}
		parts = append(parts, part)
	}
	return bytes.Join(parts, []byte("\n"))
}

// readResult looks into what a tool gave back beside its text, when it ran an agent.
func (l *line) readResult(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "agentId":
			l.resultAgent = id(c)
		case "totalToolUseCount":
			l.resultTools, _ = c.Int()
		case "status":
			l.launched = string(c.Text()) == "async_launched"
		case "isAsync":
			if c.Bool() {
				l.launched = true
			}
		}
	}
}
