package claudecode

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/outcome"
	"weir/events/adapter/polling"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// line is one line of a transcript, as far as it is of use.
//
// It aliases nothing of the record: texts become hashes here, so that lines may wait while
// others are read.
type line struct {
	kind                                 string
	uuid, parent, session, agent, prompt string
	// meta is of lines that the program writes in the user's name.
	sidechain, meta bool
	compacted       bool // the agent knows no more than this line of what was before
	at              events.Stamp
	message, model  string
	ended           bool // the model ended its turn
	apiError        bool
	failed          string // the error of the model's service, normalised
	usage           events.Usage
	blocks          []block
	text            []byte      // of all text blocks
	refused         bool        // a Stop hook did not let the turn end
	echo            events.Hash // of a prompt, see adapter.EchoOf
	machine         bool        // a program wrote it in the place of the user
	said            events.Hash
	sim             events.Fingerprint
	// resultAgent, resultTools and launched are of the tool use whose result the line has, if
	// it ran an agent.
	resultAgent string      // agent that the tool ran
	resultTools int64       // tool calls of that agent
	launched    bool        // it runs on
	state       events.Hash // of the file that the tool use whose result the line has left
}

// block is one part of a message.
//
// Text blocks are joined in line.text; of the others there is one block each.
type block struct {
	kind, id, name string
	args           events.Hash // of the arguments
	argsSize       int64
	agentKind      string
	background     bool               // its caller does not wait for the agent
	said           events.Hash        // of a result, or of the prompt of an agent
	sim            events.Fingerprint // of the same, or of the arguments of a tool that runs none
	failed         bool
	failure        string
	// size is at least 1, so that an empty result is not one of unknown size.
	size     int64           // of a result
	notMade  bool            // the call was given up because one beside it failed
	rejected bool            // a result that says that nothing was changed
	subject  polling.Subject // of a call
	intent   outcome.Intent  // of a call
	came     outcome.Said    // of a result
	looked   polling.Said    // what a result reports about processes
}

// read reads the first value of a record and returns where it ends. The line is nil if it
// does not concern agents and tools.
//
// n is set in any case, as far as the value was read, because a record may hold two.
func read(record []byte, ignore adapter.IgnoreArgs) (l *line, n int, err error) {
	// All texts become hashes before this returns.
	room := jsonwalk.Borrow()
	defer room.Return()
	l = &line{}
	known := false
	c := room.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			// A record without a type is no line of a transcript, or was cut.
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
		case "isMeta":
			l.meta = c.Bool() || l.meta
		case "isCompactSummary":
			l.compacted = c.Bool()
			l.meta = l.compacted || l.meta
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
	// Other lines (summaries, snapshots of files, system messages) do not concern agents and
	// tools, and may lack the members that are required below.
	case l.kind != "user" && l.kind != "assistant":
		return nil, n, nil
	case l.session == "":
		return nil, n, missing("sessionId")
	case l.at == 0:
		return nil, n, missing("timestamp")
	// Without a uuid a message's own id serves.
	case l.uuid == "" && l.message == "":
		return nil, n, missing("uuid")
	}
	l.hash()
	return l, n, nil
}

// hash keeps hashes of the text, which is not kept itself.
func (l *line) hash() {
	// The text of other lines is not needed.
	if l.kind == "user" || l.ended {
		l.said, l.sim = fingerprint.Content(l.text), fingerprint.Text(l.text)
	}
	if l.apiError {
		l.failed = fingerprint.Error(l.text)
	}
	if l.kind == "user" && !l.meta {
		l.echo = adapter.EchoOf(l.text)
	}
	l.machine = l.kind == "user" && !l.meta && adapter.MachinePrompt(l.text)
	l.meta = l.meta || l.machine
	l.refused = l.meta && bytes.HasPrefix(l.text, stopFeedback)
	// A parsed line may wait until others are emitted, and its text is not needed then.
	l.text = nil
}

// id reads an id. Half the room of an event's id is left for what is put behind it.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2-16) }

// readMessage reads what the API of the model was sent or has answered.
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
			l.usage = usage.Anthropic.Read(c)
		case "content":
			// Prompts are a text, or a list of blocks.
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

// readBlock reads a block by its type. Members may come in any order, so they are gathered
// first.
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
			said = adapter.WithoutReminders(texts(c))
		case "is_error":
			b.failed = c.Bool()
		}
	}
	// Thoughts and images have a block of another type, of which nothing is used.
	switch b.kind {
	case "text":
		if len(l.text) > 0 {
			l.text = append(l.text, '\n')
		}
		l.text = append(l.text, text...)
	case "tool_result":
		b.said, b.sim = fingerprint.Result(said)
		b.size = int64(max(1, len(said)))
		b.looked, b.rejected, b.came = polling.Read(said), adapter.Rejects(said), outcome.Read(said)
		b.rejected = b.rejected || b.came.Refuses()
		b.notMade = b.failed && bytes.Contains(said, siblingFailed)
		if b.failed && b.said == events.EmptyContent {
			b.said = events.Hash{} // an error without text is judged by its type
		}
		if b.failed {
			b.failure = fingerprint.Error(said)
		}
	case "tool_use":
		b.readArguments(c.Inside(input), input, ignore)
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
//
// A tool that runs an agent has no arguments to be compared: what it is asked stands in the
// call of the agent.
func (b *block) readArguments(c *jsonwalk.Cursor, input []byte, ignore adapter.IgnoreArgs) {
	if b.readPrompt(c); delegates(b) {
		return
	}
	b.args, b.argsSize, b.sim = fingerprint.Args(input, ignore.Of(b.name)), int64(len(input)), fingerprint.ArgsText(input)
	b.subject, b.intent = polling.Of(b.name, input, b.args), outcome.Of(b.name, input)
}

// readPrompt looks into the arguments of a tool that may run an agent.
//
// Another tool of the same name has no prompt, and is a tool.
func (b *block) readPrompt(c *jsonwalk.Cursor) {
	if b.name != "Agent" && b.name != "Task" || c.Peek() != '{' {
		return
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "prompt":
			p := c.Text()
			b.said, b.sim = fingerprint.Content(p), fingerprint.Text(p)
		case "subagent_type":
			b.agentKind = adapter.Word(c.Text(), events.MaxID)
		case "run_in_background":
			b.background = c.Bool()
		}
	}
}

// texts reads the content of a result: a string, or a list of parts of which the
// texts are joined. Parts without text count as they are.
//
// The same list twice gives the same text, whatever it is made of.
func texts(c *jsonwalk.Cursor) []byte {
	if c.Peek() == '"' {
		return c.Text()
	}
	content := c.Raw()
	if len(content) == 0 || content[0] != '[' {
		return content
	}
	c = c.Inside(content)
	var parts [][]byte
	for c.Array(); c.Element(); {
		raw := c.Raw()
		part := raw
		if len(raw) > 0 && raw[0] == '{' {
			inner := c.Inside(raw)
			for inner.Object(); inner.Member(); {
				if string(inner.Key()) == "text" {
					part = inner.Text()
				}
			}
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 { // as nearly always, and long
		return parts[0]
	}
	return bytes.Join(parts, []byte("\n"))
}

// readResult looks into what a tool gave back beside its text, when it ran an agent.
//
// Its form differs between tools; only members of those that run agents are looked for.
func (l *line) readResult(c *jsonwalk.Cursor) {
	var f edited
	for c.MaybeObject(); c.Member(); {
		switch key := string(c.Key()); key {
		case "filePath", "originalFile", "oldString", "newString", "content":
			if c.Peek() == '"' {
				f.read(key, c.Text())
			} else {
				c.Skip()
			}
		case "replaceAll":
			f.all = c.Bool()
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
	l.state = f.state()
}

// edited is a file that an edit changed, as the program notes it beside the result.
type edited struct {
	path               string
	before, from, into []byte
	content            []byte
	all                bool
}

func (f *edited) read(key string, text []byte) {
	switch key {
	case "filePath":
		f.path = string(text)
	case "originalFile":
		f.before = text
	case "oldString":
		f.from = text
	case "newString":
		f.into = text
	case "content":
		f.content = text
	}
}

// state returns the hash of the file after the edit; the zero Hash where that is not known.
func (f *edited) state() events.Hash {
	switch {
	case f.path == "":
		return events.Hash{}
	case f.content != nil:
		return outcome.State(f.path, f.content)
	case len(f.before) == 0 || len(f.from) == 0:
		return events.Hash{}
	case f.all:
		return outcome.State(f.path, bytes.ReplaceAll(f.before, f.from, f.into))
	}
	return outcome.State(f.path, bytes.Replace(f.before, f.from, f.into, 1))
}
