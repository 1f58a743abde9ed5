package mcp

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// A server may answer a tool call by a task, at which the client looks by tasks/get until it is
// over, and which it answers by tasks/update where the task asks for input.

// task is a tool call that has become one.
type task struct {
	call call
	poll int64        // ms that the server wants between two looks; 0 for none
	last events.Stamp // of the last look
	look string       // id of the call of the last look
}

// stated is what a message says of a task.
type stated struct {
	id, status string
	poll       int64
	result     []byte // of the tool, where the task is over
	failure    []byte // JSON-RPC error, where it failed
}

// over reports whether nothing more comes of the task.
func (s *stated) over() bool {
	return s.status == "completed" || s.status == "failed" || s.status == "cancelled"
}

// readStated reads what a result or the parameters of a request say of a task; an empty id when
// that is none.
func readStated(raw []byte) (s stated) {
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "task":
			inner := readStated(c.Raw())
			inner.result, inner.failure = s.result, s.failure
			s = inner
		case "taskId":
			s.id = adapter.Word(c.Text(), events.MaxID)
		case "status":
			s.status = string(c.Text())
		case "pollIntervalMs", "pollInterval":
			s.poll, _ = c.Int()
		case "result":
			s.result = c.Raw()
		case "error":
			s.failure = c.Raw()
		}
	}
	return s
}

// key is what a task is remembered by: ids are those of a server.
func taskKey(rec *wire.Record, id string) string { return rec.Proxy + " " + id }

// becomes remembers a call that was answered by a task, and reports whether it was.
func (r *reader) becomes(rec *wire.Record, c *call, m *wire.Message) bool {
	s := readStated(m.Result)
	if s.id == "" || s.over() {
		return false
	}
	r.tasks.Put(taskKey(rec, s.id), &task{call: *c, poll: s.poll, last: rec.At, look: c.event.Tool.CallID})
	return true
}

// look makes the call of a request about a task; false where the task is not known. A look that
// keeps to the interval of the server is the one before it again. One that comes sooner is a call
// of its own, which rules about repetition and polling count.
func (r *reader) look(rec *wire.Record, m *wire.Message) (c call, ok bool) {
	s := readStated(m.Params)
	t, known := r.tasks.Get(taskKey(rec, s.id))
	if s.id == "" || !known {
		return c, false
	}
	id := rec.ID() + "/" + m.ID
	e := t.call.event
	e.ID, e.Kind, e.Time = id+"/call", events.ToolCall, rec.At
	e.Tool = events.Tool{Name: m.Method, CallID: id, Server: rec.Proxy, Type: "mcp", ArgsHash: fingerprint.Args(m.Params, []string{"inputResponses", "_meta"}), ArgsSize: int64(len(m.Params))}
	if early := int64(rec.At-t.last) < t.poll; !early || m.Method == "tasks/update" {
		e.Tool.RetryOf = t.look
	}
	t.last, t.look = rec.At, id
	return call{rpc: m.ID, event: e, task: taskKey(rec, s.id)}, true
}

// looked takes the answer to a look: the outcome of the task is the result of the call that became it.
func (r *reader) looked(rec *wire.Record, c *call, m *wire.Message, emit func(*events.Event)) {
	s := readStated(m.Result)
	got := result{status: events.StatusOK, said: fingerprint.Content([]byte(s.status))}
	if m.Error != nil {
		got = readResult(m)
	}
	r.result(rec, c, got, emit)
	t, known := r.tasks.Get(c.task)
	if !known {
		return
	}
	if s.poll > 0 {
		t.poll = s.poll
	}
	if !s.over() {
		return
	}
	r.tasks.Delete(c.task)
	got = readResult(&wire.Message{Result: s.result, Error: s.failure})
	switch {
	case s.status == "cancelled":
		got.status = events.StatusCancelled
	case s.status == "failed" && got.status == events.StatusOK:
		got.status, got.failure = events.StatusError, "task failed"
	}
	r.result(rec, &t.call, got, emit)
}
