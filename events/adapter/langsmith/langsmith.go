// Package langsmith reads runs as LangSmith's clients post them.
//
// It reads the names, kinds, times, inputs, outputs and errors of runs. From their metadata it
// reads agent, thread, model and tokens. A run comes twice, when it begins (post) and when it
// ends (patch), or once. The metadata names the agent: lc_agent_name, or the node of the graph
// when it asks a model itself.
//
// One trace is one flow, unless metadata has a correlation_id; thread_id is the conversation.
// The tags and the metadata of its first run are tags of the flow. Further tags of runs of tools
// and agents belong to these. A trace may descend from another flow: when the parent of its first
// run is in another trace, or when its metadata has a parent_correlation_id.
//
// A session in LangSmith's terms is a project and identifies neither flow nor conversation.
// Programs may hide inputs and outputs; arguments, results and messages are then unknown. A chain
// without a name of an agent or node looks like an agent: it is treated as a step.
package langsmith

import (
	"bytes"
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/spantree"
)

// Format returns the format of LangSmith runs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "langsmith",
		Title:   "LangSmith runs (LangChain, LangGraph): batch and multipart bodies, single runs",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Starts are known where runs are posted when they begin.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Sometimes, Work: adapter.Always},
	}
}

// score knows single runs by their members, batches by those of the runs within, and multipart
// bodies by the header of a part.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		switch {
		case top.Has("run_type", "dotted_order"), top.Has("run_type", "id", "start_time"):
			return adapter.Certain
		// The runs lie too deep for Tops.
		case isBatch(top) && (bytes.Contains(head.Bytes, []byte(`"run_type"`)) || bytes.Contains(head.Bytes, []byte(`"dotted_order"`))):
			return adapter.Certain
		}
	}
	// A body may be cut, so the header may be anywhere in the beginning.
	if _, ok := partOf(head.Bytes[max(0, bytes.Index(head.Bytes, []byte(disposition))):]); ok {
		return adapter.Certain
	}
	return adapter.NoMatch
}

// isBatch is true for an object that has nothing but lists of posted and of patched
// runs.
//
// Nothing else may be there, for post is a common name.
func isBatch(top adapter.Top) bool {
	n := 0
	for _, name := range [...]string{"post", "patch"} {
		if top[name] == "[" {
			n++
		}
	}
	return n > 0 && n == len(top)
}

// reader reads one input; runs is shared with its branches.
type reader struct {
	*runs
	body
}

// runs is what is known of runs, by all inputs together.
//
// So a run that one client posts and another one patches is one run.
type runs struct {
	tree   *spantree.Tree
	place  int64 // of the record that is read, see adapter.Keeper
	ignore adapter.IgnoreArgs
	posted *adapter.Recent[posted] // by id: runs that have not ended
}

// body is a multipart body that comes line by line.
//
// The bytes of its runs are copied, since its lines are records of their own.
type body struct {
	part  part // whose content the next line is
	open  *run // the run whose parts come
	ready []*run
	began int64 // place of the first line of ready and open
	size  int   // bytes of ready and open
}

// newReader reads the first input by itself.
func newReader(o adapter.Options) adapter.Adapter {
	return &reader{runs: &runs{tree: spantree.New(o, "langsmith"), ignore: o.IgnoreArgs,
		posted: adapter.NewRecent[posted](o.HeldOr(maxPosted))}}
}

// Branch returns a reader for another input; see adapter.Branching.
//
// It has a body of its own, so that two requests do not end up in one.
func (r *reader) Branch() adapter.Adapter { return &branch{reader{runs: r.runs}} }

// branch is a reader of one input of several.
type branch struct{ reader }

// Flush emits the received runs of a multipart body that has not ended.
//
// The tree is shared; the Flush of the reader that this is a branch of emits it.
func (b *branch) Flush(emit func(*events.Event)) error { return b.finish(emit) }

// maxPosted bounds the runs of which it is remembered what they are.
const maxPosted = 16384

// posted is what a patch may leave out and yet is needed to read it.
//
// A patch has mostly only outputs and end.
type posted struct {
	trace, kind, name, agent, node string
	place                          int64 // of the record with the post
}

// recall fills the fields that a patch omits from the post of the same run.
//
// A run that has ended needs no further patch.
func (r *runs) recall(u *run) {
	p, known := r.posted.Get(u.id)
	// A run that is met first by its patch is remembered from there.
	if !known {
		p.place = r.place
	}
	if u.kind == "" && known {
		u.trace, u.kind, u.name = cmp.Or(u.trace, p.trace), p.kind, cmp.Or(u.name, p.name)
		u.agent, u.node = cmp.Or(u.agent, p.agent), cmp.Or(u.node, p.node)
	}
	if u.end != 0 {
		r.posted.Delete(u.id)
	} else if u.id != "" {
		r.posted.Put(u.id, posted{u.trace, u.kind, u.name, u.agent, u.node, p.place})
	}
}

// Decode reads one body, one run, or one line of a multipart body. A JSON body that
// is not well-formed is refused as a whole; runs without id or time are left out and
// reported after the others were read.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// A body that comes whole is read as its lines would be.
	if isMultipart(record) {
		var first error
		for line := range bytes.Lines(record) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				if err := r.line(line, emit); err != nil {
					first = cmp.Or(first, err)
				}
			}
		}
		return first
	}
	// A line that is JSON may be the content of a part, or a record of its own.
	if r.part.kind != noPart || !isJSON(record) && r.open != nil {
		return r.line(record, emit)
	}
	var runs []*run
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); key {
		case "post", "patch":
			for c.MaybeArray(); c.Element(); {
				if runs = append(runs, readRun(c)); len(runs) > adapter.MaxItems {
					c.Fail(adapter.TooMany("runs"))
				}
			}
		default:
			// No batch, so the record is one run, and is read again as that.
			if len(runs) == 0 {
				c = jsonwalk.New(record)
				runs = append(runs, readRun(c))
				c.End()
				if c.Err() != nil {
					return c.Err()
				}
				return r.add(runs, emit)
			}
			c.Skip()
		}
	}
	c.End()
	if c.Err() != nil {
		return c.Err()
	}
	return r.add(runs, emit)
}

// Flush emits all held events. A run of an interrupted multipart body is emitted as far as it was
// received, or omitted.
func (r *reader) Flush(emit func(*events.Event)) error {
	_ = r.finish(emit)
	r.tree.Flush(emit)
	return nil
}

// add gives runs to the tree and emits the events that are ready.
//
// Rejected runs do not affect the others.
func (r *runs) add(runs []*run, emit func(*events.Event)) error {
	var fault *events.DecodeError
	refused := 0
	for _, u := range runs {
		r.recall(u)
		if err := u.complete(); err != nil {
			refused++
			fault = cmp.Or(fault, err)
			continue
		}
		// The names of the flow are those of the trace, from any of its runs.
		span := u.span(r.ignore)
		names := spantree.Names{Explicit: u.correlation, Conversation: u.thread, Parent: u.above, Root: u.root}
		if u.parent == "" {
			names.Tags = span.Tags // runs below the first inherit its tags, and have some of their own
		}
		r.tree.Name(u.trace, names)
		r.tree.Add(u.trace, span)
	}
	// The tree emits a run when no run above it is still to come.
	r.tree.Settle(emit)
	if fault != nil {
		return &adapter.PartError{First: fault, LeftOut: refused, Of: len(runs), What: "runs"}
	}
	return nil
}
