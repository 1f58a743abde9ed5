package a2a

import (
	"strings"

	"weir/events"
	"weir/events/a2aflow"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// message is what is sent to an agent, as far as it is of use.
//
// Parts that are no text count as they are, see Cursor.Texts.
type message struct {
	id, context string
	task        string   // that it goes on with
	refers      []string // to tasks that it builds on
	correlation string
	parent      string // the flow that opened this one
	root        string
	baggage     wire.Flow
	trace       wire.Trace
	hop         wire.Flow // by weir's extension of A2A
	hops        int64     // by the same
	said        events.Hash
	sim         events.Fingerprint
}

// maxReferences is how many tasks that a message builds on are looked for.
//
// They are looked up one by one in what is remembered.
const maxReferences = 64

// readParams reads the parameters of a method that sends.
func readParams(raw []byte) *message {
	m := &message{}
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "message":
			m.read(c)
		// Metadata may stand beside the message as well as in it.
		case "metadata":
			m.readMetadata(c)
		case "sessionId": // of 2025
			m.context = adapter.ID(c.Text())
		}
	}
	return m
}

// read reads the message itself.
func (m *message) read(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "messageId":
			m.id = adapter.ID(c.Text())
		case "contextId":
			m.context = adapter.ID(c.Text())
		case "taskId":
			m.task = adapter.ID(c.Text())
		case "referenceTaskIds":
			for c.MaybeArray(); c.Element(); {
				if id := adapter.ID(c.Text()); len(m.refers) < maxReferences {
					m.refers = append(m.refers, id)
				}
			}
		case "metadata":
			m.readMetadata(c)
		case "parts":
			text := c.Texts()
			m.said, m.sim = fingerprint.Content(text), fingerprint.Text(text)
		}
	}
}

// readMetadata takes what names the flow.
func (m *message) readMetadata(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "correlation_id", "correlationId":
			m.correlation = adapter.Word(c.Text(), events.MaxID)
		case "parent_correlation_id":
			m.parent = adapter.Word(c.Text(), events.MaxID)
		case "root_correlation_id":
			m.root = adapter.Word(c.Text(), events.MaxID)
		case "baggage":
			m.baggage = wire.Baggage(c.Text())
		case "traceparent":
			m.trace = wire.Traceparent(c.Text())
		case a2aflow.URI:
			if hop, ok := a2aflow.Read(c.Raw()); ok {
				m.hops, m.hop = hop.Hops, wire.Flow{ID: hop.Flow, Parent: hop.Parent, Root: hop.Root}
			}
		}
	}
}

// outcome is the outcome of a message, as reported by one response or by all events of a stream.
//
// Its texts are those of the last state, except artifacts, which add up.
type outcome struct {
	task, context string
	done          bool
	status        events.Status
	failure       string // normalised
	artifacts     artifacts
	message       []byte // aliases the response, or is put together from it
}

// read reads one answer of JSON-RPC.
func (o *outcome) read(m *wire.Message) {
	if m.Error != nil {
		o.done, o.status, o.failure = true, events.StatusError, m.Failure()
		return
	}
	c := jsonwalk.New(m.Result)
	if c.Peek() == '{' {
		o.readResult(c)
	}
	// A failed task says why in the message of its status.
	if o.done && o.status == events.StatusError && o.failure == "" {
		o.failure = fingerprint.Error(o.message)
	}
}

// said is the answer: what the agent made, else what it said, else why it failed.
func (o *outcome) said() (events.Hash, events.Fingerprint) {
	text := o.artifacts.text()
	if len(text) == 0 {
		text = o.message
	}
	if len(text) == 0 {
		text = []byte(o.failure)
	}
	return fingerprint.Content(text), fingerprint.Text(text)
}

// readResult reads a task, a message or an update of one: version 1.0 puts each under
// its name, version 0.3 does not.
func (o *outcome) readResult(c *jsonwalk.Cursor) {
	id, isMessage, isMore := "", false, false
	var made artifact
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		// Version 1.0.
		case "task", "message", "statusUpdate", "artifactUpdate":
			if c.Peek() == '{' {
				o.readResult(c)
			} else {
				c.Skip()
			}
		case "id":
			id = adapter.ID(c.Text())
		case "taskId":
			o.task = adapter.ID(c.Text())
		case "contextId":
			o.context = adapter.ID(c.Text())
		case "messageId":
			isMessage = true
			c.Skip()
		case "parts":
			o.message = c.Texts()
		case "status":
			o.readStatus(c)
		case "artifacts":
			o.readArtifacts(c)
		case "artifact":
			made = readArtifact(c)
		case "append":
			isMore = c.Bool()
		}
	}
	// The id of a task; a message has a messageId.
	if id != "" {
		o.task = id
	}
	// An answer that is a message ends the call.
	if isMessage && !o.done {
		o.done, o.status = true, events.StatusOK
	}
	o.artifacts.take(made, isMore)
}

// readArtifacts reads all that a task made, and forgets what was read of it before.
//
// A task that is asked for has all of them, a stream each as it comes.
func (o *outcome) readArtifacts(c *jsonwalk.Cursor) {
	if c.Peek() != '[' {
		c.Skip()
		return
	}
	o.artifacts = nil
	for c.Array(); c.Element(); {
		o.artifacts.take(readArtifact(c), false)
	}
}

// readParts reads the texts in the parts of an artifact or a message.
func readParts(c *jsonwalk.Cursor) (text []byte) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "parts" {
			text = c.Texts()
		}
	}
	return text
}

// readStatus reads the state of a task and what the agent said with it.
func (o *outcome) readStatus(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "state":
			o.readState(string(c.Text()))
		case "message":
			if c.Peek() == '{' {
				o.message = readParts(c)
			} else {
				c.Skip()
			}
		}
	}
}

// readState reads the state of a task, as version 1.0 or 0.3 spells it.
//
// Names of states that are not known count as going on.
func (o *outcome) readState(state string) {
	// TASK_STATE_INPUT_REQUIRED and input-required are one.
	state = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(state, "TASK_STATE_")), "-", "_")
	o.done = true
	switch state {
	case "completed":
		o.status = events.StatusOK
	case "failed":
		o.status = events.StatusError
	case "rejected":
		o.status = events.StatusDenied
	case "canceled", "cancelled":
		o.status = events.StatusCancelled
	// The caller has to do something before it goes on, so the call is over.
	case "input_required", "auth_required":
		o.status = events.StatusInputRequired
	default: // submitted, working
		o.done = false
	}
}
