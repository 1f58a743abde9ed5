package openhands

import (
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// line is one event, as far as it is of use.
// The members of all kinds of events share it.
type line struct {
	id, parent, kind, source, sender string
	at                               events.Stamp
	// call is the model's id of the call, actionID the event's that a result answers.
	tool, call, actionID string
	// args and text alias the record.
	args    []byte // of a tool, as JSON
	action  string // kind of the action
	child   string // agent that is given a task
	text    []byte
	said    events.Hash
	sim     events.Fingerprint
	came    events.Event // fingerprints of the text as that of a result
	status  events.Status
	failure string // normalised
	// usage is a sum since the conversation began.
	usage events.Usage
}

// read reads one event of any kind. Members mean the same in all of them.
func read(record []byte) (*line, error) {
	l := &line{status: events.StatusOK}
	// state and value are of an update of the conversation's state: which part of it, and what.
	state := ""
	var value, failure []byte
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			l.id = adapter.ID(c.Text())
		case "parent_id":
			l.parent = adapter.ID(c.Text())
		case "kind":
			l.kind = string(c.Text())
		case "source":
			l.source = string(c.Text())
		case "sender":
			l.sender = adapter.Word(c.Text(), events.MaxID)
		case "timestamp":
			l.at = stamp(c.Text())
		case "tool_name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "tool_call_id":
			l.call = adapter.ID(c.Text())
		// Results name the event of their action.
		case "action_id":
			l.actionID = adapter.ID(c.Text())
		// The call as the model wrote it, beside the action that the program made of it.
		case "tool_call":
			l.readCall(c)
		case "action":
			l.readAction(c)
		case "observation":
			l.readObservation(c)
		case "llm_message":
			l.readMessage(c)
		// A null is no error.
		case "error", "detail", "rejection_reason":
			if t := c.Text(); t != nil {
				failure = t
			}
		case "key":
			state = string(c.Text())
		case "value":
			value = c.Raw()
		}
	}
	c.End()
	l.require(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	// The texts of failures are hashed as results are, below.
	switch l.kind {
	case "AgentErrorEvent", "ConversationErrorEvent":
		l.status, l.text = events.StatusError, failure
	case "UserRejectObservation":
		// Who rejects says why, in the place of a result.
		l.status, l.text = events.StatusDenied, failure
	case "ConversationStateUpdateEvent":
		if state == "stats" || state == "full_state" {
			l.readStats(jsonwalk.New(value), state == "full_state")
		}
	}
	l.hash()
	return l, nil
}

// hash keeps hashes of the text, while the record is there.
func (l *line) hash() {
	l.said, l.sim = fingerprint.Content(l.text), fingerprint.Text(l.text)
	l.came.Status = l.status
	pairing.Returned(&l.came, append([]byte{}, l.text...))
	if l.status == events.StatusError {
		l.failure = fingerprint.Error(l.text)
	}
}

// require fails for an event without what each has.
func (l *line) require(c *jsonwalk.Cursor) {
	switch {
	case c.Err() != nil:
	case l.kind == "":
		c.Fail(events.CodeMissingField, "kind", "want the kind of every event")
	case l.id == "":
		c.Fail(events.CodeMissingField, "id", "want the id of every event")
	case l.at == 0:
		c.Fail(events.CodeMissingField, "timestamp", "want the time of every event, in ISO 8601")
	}
}

// stamp reads a time. It is a local one without a zone; taken for UTC it is right
// but for the same number of hours everywhere.
func stamp(p []byte) events.Stamp {
	// A time with a zone is read as it is.
	for _, zone := range [...]string{"", "Z"} {
		if at, ok := events.ParseStamp(string(p) + zone); ok {
			return at
		}
	}
	return 0
}

// readCall takes the arguments as the model wrote them; action has them as the program read
// them.
func (l *line) readCall(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "arguments" {
			l.args = c.Raw()
		}
	}
}

// readAction finds tasks and the end, which are actions of their own kind.
func (l *line) readAction(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	// Which of both is the text depends on the kind of the action.
	var prompt, message []byte
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "kind":
			l.action = string(c.Text())
		case "subagent_type":
			l.child = adapter.Word(c.Text(), events.MaxID)
		case "prompt":
			prompt = c.Text()
		case "message":
			message = c.Text()
		}
	}
	switch l.action {
	case "TaskAction", "DelegateAction":
		l.text = prompt
	case "FinishAction":
		l.text = message
	}
}

// readObservation keeps what a result says. Its other members are left out: some
// repeat the arguments, and others (task_id) count up, which would make any two
// results differ.
func (l *line) readObservation(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	// exit is "" for results without a code.
	exit := ""
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "content":
			l.text = texts(c)
		// Any of the next three may say that it failed; the last one counts.
		case "is_error":
			if c.Bool() {
				l.status = events.StatusError
			}
		case "timeout":
			if c.Bool() {
				l.status = events.StatusTimeout
			}
		case "status":
			if string(c.Text()) == "error" {
				l.status = events.StatusError
			}
		case "exit_code":
			if code, ok := c.Int(); ok {
				exit = strconv.FormatInt(code, 10)
			}
		}
	}
	// Two runs of a command with the same output and another exit code are not the same. The
	// slice is cut so that append copies: the text may alias the record.
	if exit != "" && exit != "0" {
		l.text = append(append(l.text[:len(l.text):len(l.text)], "\nexit code "...), exit...)
	}
}

// readMessage takes what a message says.
func (l *line) readMessage(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "content" {
			l.text = texts(c)
		}
	}
}

// texts reads a text, or a list of blocks.
func texts(c *jsonwalk.Cursor) []byte {
	if c.Peek() == '"' {
		return c.Text()
	}
	return c.Texts()
}

// readStats adds up what the models of a conversation used: its agent's, its
// condenser's.
// A sum of all of them since the beginning, see reader.tokens.
//
// whole says that the statistics lie within the full state.
func (l *line) readStats(c *jsonwalk.Cursor, whole bool) {
	for c.MaybeObject(); c.Member(); {
		switch {
		// The full state holds the statistics among other things.
		case whole && string(c.Key()) == "stats":
			l.readStats(jsonwalk.New(c.Raw()), false)
		case !whole && string(c.Key()) == "usage_to_metrics" && c.Peek() == '{':
			for c.Object(); c.Member(); {
				l.readMetrics(c)
			}
		}
	}
}

// readMetrics adds what one model used to the sum.
func (l *line) readMetrics(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	// Sums are bounded, so that several models cannot add up to more than an event may say.
	u := &l.usage
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); {
		case key == "accumulated_cost":
			micro, _ := usage.Dollars(c.Scalar())
			u.CostMicroUSD = min(u.CostMicroUSD+micro, events.MaxCostUSD*1_000_000)
		case key == "accumulated_token_usage" && c.Peek() == '{':
			one := counts.Read(c) // of one model
			for _, sum := range [...]struct {
				to *int64
				of int64
			}{{&u.Input, one.Input}, {&u.Output, one.Output}, {&u.CacheRead, one.CacheRead}, {&u.CacheCreation, one.CacheCreation}, {&u.Reasoning, one.Reasoning}} {
				*sum.to = min(*sum.to+sum.of, events.MaxNumber)
			}
			u.Known = u.Known || one.Known
		}
	}
}

// counts are the SDK's names.
var counts = usage.Names{
	"prompt_tokens":      usage.Input,
	"completion_tokens":  usage.Output,
	"cache_read_tokens":  usage.CacheRead,
	"cache_write_tokens": usage.CacheCreation,
	"reasoning_tokens":   usage.Reasoning,
}
