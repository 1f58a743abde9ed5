package chat

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// counted is what was counted of one answer, which some logs write several times.
type counted struct {
	events.Usage
	parts int
}

// message emits the content of one message: an answer of the model, results, or the user's message.
func (r *reader) message(v *talk, n *node, emit func(*events.Event)) {
	v.n++
	if n.passed {
		return
	}
	if r.unfold != nil {
		r.unfold(n)
	}
	now := r.clock.at(n.at)
	key := cmp.Or(n.id, strconv.Itoa(v.n))
	if !r.unique || n.id == "" {
		key = v.turn.Session + "/" + key
	}
	turn := r.turn(v, n)
	calls, results := r.parts(v, n)
	r.tokens(&turn, n, key, now, emit)
	for i := range calls {
		calls[i].At = now
		r.log.Call(&turn, &calls[i], emit)
	}
	for i := range results {
		results[i].Ended = now
		r.log.Result(&turn, &results[i], emit)
	}
	switch who := cmp.Or(n.role, n.kind); {
	case len(calls)+len(results) > 0 || len(n.text) == 0 || n.parent != "":
	case isAnswer(who) && !r.closes:
		r.log.Answer(&turn, key, now, events.StatusOK, n.text, emit)
	case who == "user" && !(r.onePrompt && v.asked) && !v.inner:
		v.asked = true
		v.turn.Prompt = key
		r.log.Prompt(&v.turn, key, now, n.text, emit)
	}
}

// turn returns the turn of a record, by the agent that acts: a subagent where the record names the
// call that gave it its task.
func (r *reader) turn(v *talk, n *node) transcript.Turn {
	turn := v.turn
	if n.parent == "" {
		return turn
	}
	turn.By, _ = r.tasks.Get(n.parent)
	if turn.By.IsZero() {
		turn.By = events.Party{Session: turn.Session + "/" + n.parent, Agent: "subagent"}
	}
	return turn
}

func isAnswer(role string) bool { return role == "assistant" || role == "model" || role == "agent" }

// parts sorts the parts of a message into calls and results, and adds texts to that of the
// message.
func (r *reader) parts(v *talk, n *node) (calls, results []transcript.Use) {
	var shared []byte // a result that names no call is that of all calls of the message
	for i := range n.nodes {
		p := &n.nodes[i]
		p.model, p.role = "", n.role
		if u := r.use(v, p, i); u.ID == "" && p.said != nil {
			shared = p.said
		} else if u.ID == "" {
			if !p.passed && !bytes.HasPrefix(p.text, []byte("<environment_details>")) {
				n.add(p.text)
			}
		} else if p.said == nil {
			calls = append(calls, u)
		} else {
			results = append(results, u)
		}
	}
	if shared != nil {
		for _, u := range calls {
			if !slices.ContainsFunc(results, func(of transcript.Use) bool { return of.ID == u.ID }) {
				u.Said = shared
				results = append(results, u)
			}
		}
	}
	switch who := cmp.Or(n.role, n.kind); {
	// The message itself is a result.
	case who == "tool" || who == "toolResult" || who == "function":
		if n.said == nil {
			n.said = append([]byte{}, n.text...)
		}
		results = append(results, r.use(v, n, 0))
	case n.said != nil || n.args != nil:
		u := r.use(v, n, 0)
		if n.args != nil {
			calls = append(calls, u)
		}
		if n.said != nil {
			results = append(results, u)
		}
	case isAnswer(who) && len(calls) == 0 && r.inText != nil:
		if name, args := r.inText(n.text); name != "" {
			n.tool, n.args = name, args
			v.pending = r.use(v, n, 0)
			calls = append(calls, v.pending)
		}
	// The message after such an answer is its result, whatever its role.
	case who == "user" && len(results) == 0 && v.pending.ID != "":
		n.call, n.tool, n.said = v.pending.ID, v.pending.Tool, append([]byte{}, afterHeader(n.text)...)
		u := r.use(v, n, 0)
		u.ID = v.pending.ID
		results, v.pending = append(results, u), transcript.Use{}
	}
	return calls, results
}

// maxOpen bounds the tools whose calls have no ids, and such calls of one tool.
const maxOpen = 64

// use is a call or a result; the zero Use where a part is neither. A call without an id is called
// by its place, and a result without one is that of the last such call.
func (r *reader) use(v *talk, p *node, i int) (u transcript.Use) {
	if p.tool == "" && p.said == nil && p.args == nil {
		return u
	}
	called := p.call
	switch open := v.open[p.tool]; {
	case called != "":
	case p.said == nil || p.args != nil:
		called = strconv.Itoa(v.n) + "." + strconv.Itoa(i)
		if len(v.open) >= maxOpen {
			clear(v.open)
		}
		v.open[p.tool] = append(open[max(0, len(open)+1-maxOpen):], called)
	case len(open) == 0:
		return u // nothing is known of its call
	default:
		called, v.open[p.tool] = open[0], open[1:]
	}
	u = transcript.Use{ID: called, Tool: cmp.Or(p.tool, "bash"), Args: p.args, Said: p.said, Server: transcript.Server(p.tool)}
	if !r.unique {
		u.ID = v.turn.Session + "/" + called
	}
	if p.failed || bytes.HasPrefix(p.said, []byte("<system>ERROR:")) || bytes.HasPrefix(p.said, []byte("<returncode>")) && !bytes.HasPrefix(p.said, []byte("<returncode>0<")) {
		u.Status = events.StatusError
	}
	if given, ok := r.tasks.Get(u.ID); ok {
		u.To = given
	} else if r.unique && (p.tool == "Task" || p.tool == "Agent") {
		r.task(v, &u)
	}
	return u
}

// task is a call that gives a task to another agent.
func (r *reader) task(v *talk, u *transcript.Use) {
	agent := "general-purpose"
	c := jsonwalk.New(u.Args)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "prompt":
			u.Asked = c.Text()
		case "subagent_type":
			agent = cmp.Or(adapter.Word(c.Text(), events.MaxID/4), agent)
		}
	}
	if len(u.Asked) > 0 {
		u.To = events.Party{Session: v.turn.Session + "/" + u.ID, Agent: agent}
		r.tasks.Put(u.ID, u.To)
	}
}

// tokens emits the usage of an answer, less what was counted of it before.
func (r *reader) tokens(t *transcript.Turn, n *node, key string, now events.Stamp, emit func(*events.Event)) {
	if !n.used.Known {
		return
	}
	key = cmp.Or(n.answer, key)
	before, again := r.counts.Get(key)
	more, grown := usage.More(&before.Usage, &n.used)
	if again && !grown {
		return
	}
	r.counts.Put(key, counted{before.Usage, before.parts + 1})
	if again {
		key += "/" + strconv.Itoa(before.parts+1)
	}
	r.log.Inference(t, key, now, n.model, n.provider, more, emit)
}
