package chat

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// field is what a member of a dialect says.
type field uint8

// The fields. A member that a level does not name is skipped.
const (
	unread   field = iota
	session        // id of the conversation; several members make one
	owner          // the same, where several members say it
	id             // of the message
	parent         // the call whose agent acts
	role           // of the message
	kind           // of the message or of the part
	at             // time
	model          // that answered
	provider       // of the model
	agent          // name of the agent
	text           // content of the message
	anyText        // the same, where it may be any JSON
	answer         // id of an answer that has several records
	call           // id of a call, on the call and on its result
	tool           // name
	args           // of a call: an object, or a text that is JSON
	command        // of a call whose only argument is a command line
	said           // what a tool returned
	refused        // what a tool returned when it failed
	failed         // true, or an error
	passed         // true marks what a conversation repeats, or only thinks
	used           // an object of tokens
)

// level is what the members of one object say.
type level struct {
	names  map[string]field
	within map[string]*level // objects whose members belong to the object around them
	lists  map[string]*level // lists, or single objects, of things of their own
	each   *level            // objects whose name is that of a tool
	byCall field             // what each member is, whose name is the id of a call
	used   usage.Names
}

// node is one object: a conversation, a message or a part of one. Texts alias the record.
type node struct {
	session, id, answer, parent, role, kind, model, provider, agent, call, tool string
	at                                                                          events.Stamp
	text, args, said                                                            []byte
	used                                                                        events.Usage
	failed, passed                                                              bool
	nodes                                                                       []node
}

// walker reads one record. It counts nodes, so that empty ones cannot fill the memory.
type walker struct {
	c     *jsonwalk.Cursor
	nodes int
}

// object reads the object at hand into n.
func (w *walker) object(l *level, n *node) {
	for w.c.MaybeObject(); w.c.Member(); {
		key := w.c.Key()
		if l.byCall != unread {
			if !w.count() {
				return
			}
			m := node{call: adapter.Word(key, events.MaxID/4)}
			w.member(l, l.byCall, &m)
			n.nodes = append(n.nodes, m)
		} else if in := l.within[string(key)]; in != nil && w.c.Peek() == '{' {
			w.object(in, n)
		} else if in := l.lists[string(key)]; in != nil && (w.c.Peek() == '[' || w.c.Peek() == '{') {
			w.list(in, n)
		} else if f, ok := l.names[string(key)]; !ok && l.each != nil && w.c.Peek() == '{' {
			n.tool = adapter.Word(key, events.MaxID)
			w.object(l.each, n)
		} else {
			w.member(l, f, n)
		}
	}
}

// count counts one more node and reports whether the record may have it.
func (w *walker) count() bool {
	if w.nodes++; w.nodes > adapter.MaxItems {
		w.c.Fail(adapter.TooMany("messages"))
		return false
	}
	return true
}

// list reads a list of objects, or one object in its place.
func (w *walker) list(l *level, n *node) {
	if w.c.Peek() == '{' {
		n.nodes = append(n.nodes, node{})
		w.object(l, &n.nodes[len(n.nodes)-1])
		return
	}
	if n.nodes == nil {
		n.nodes = []node{}
	}
	for w.c.Array(); w.c.Element(); {
		if !w.count() {
			return
		}
		n.nodes = append(n.nodes, node{})
		w.object(l, &n.nodes[len(n.nodes)-1])
	}
}

// member reads the value at hand. Ids keep a quarter of the room of an id, so that several of
// them make one.
func (w *walker) member(l *level, f field, n *node) {
	c := w.c
	short := func() string { return adapter.Word(c.Scalar(), events.MaxID/4) }
	switch f {
	case session:
		n.session += short()
	case owner:
		n.session = cmp.Or(n.session, short())
	case id:
		n.id = short()
	case parent:
		n.parent = short()
	case role:
		n.role = adapter.Word(c.Text(), 32)
	case kind:
		n.kind = adapter.Word(c.Text(), 64)
	case at:
		n.at, _ = c.Stamp()
	case model:
		n.model = adapter.Word(c.Text(), events.MaxID)
	case provider:
		n.provider = adapter.Word(c.Text(), events.MaxProvider)
	case agent:
		n.agent = adapter.Word(c.Text(), events.MaxID/4)
	case text:
		n.add(c.Text())
	case anyText:
		n.add(c.Scalar())
	case answer:
		n.answer = short()
	case call:
		n.call = short()
	case tool:
		n.tool = adapter.Word(c.Text(), events.MaxID)
	case args, command:
		n.args = arguments(c.Raw(), f == command)
	case said:
		n.said = returned(c)
	case refused:
		n.said, n.failed = returned(c), true
	case failed:
		b := c.Peek()
		c.Skip()
		n.failed = n.failed || b != 'n' && b != 'f'
	case passed:
		n.passed = c.Bool() || n.passed
	case used:
		l.used.Into(c, &n.used)
	}
}

// add puts a text on a line of its own.
func (n *node) add(p []byte) {
	if len(n.text) == 0 {
		n.text = slices.Clip(p) // behind it other texts may stand
	} else if len(p) > 0 {
		n.text = append(append(n.text, '\n'), p...)
	}
}

// arguments returns the JSON of the arguments of a call.
func arguments(raw []byte, isCommand bool) []byte {
	if isCommand {
		return bytes.Join([][]byte{[]byte(`{"command":`), raw, []byte("}")}, nil)
	}
	if inside := jsonwalk.New(raw).Text(); len(inside) > 0 && (inside[0] == '{' || inside[0] == '[') {
		return inside
	}
	return raw
}

// returned reads what a tool returned: a text, a list of blocks, or any JSON. It is never nil,
// because nil means that nothing was returned yet.
func returned(c *jsonwalk.Cursor) []byte {
	switch c.Peek() {
	case '"':
		return append([]byte{}, c.Text()...)
	case '[':
		return append([]byte{}, c.Texts()...)
	case 'n':
		c.Skip()
		return []byte{}
	}
	return append([]byte{}, c.Raw()...)
}

// key identifies a message if the log gives it no id.
func (n *node) key(d *xxhash.Digest) {
	for _, s := range []string{n.role, n.kind, n.id, n.call, n.tool} {
		_, _ = d.WriteString(s + "\x00")
	}
	for _, p := range [][]byte{n.text, n.args, n.said} {
		_, _ = d.Write(append(p[:len(p):len(p)], 0))
	}
	for i := range n.nodes {
		n.nodes[i].key(d)
	}
}
