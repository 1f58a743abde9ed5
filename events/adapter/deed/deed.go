// Package deed reads what a call of a tool set out to do and what it achieved, for adapters of traces. Those read the
// texts when a record comes, and emit events later, when their order is known.
package deed

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/outcome"
	"weir/events/adapter/polling"
	"weir/events/fingerprint"
)

// Call is what a call sets out to do. It keeps nothing of the text of the arguments but names of
// files.
type Call struct {
	subject polling.Subject
	intent  outcome.Intent
	sim     events.Fingerprint
	known   bool
}

// Result is what a call brought, apart from its fingerprints.
type Result struct {
	looked polling.Said
	came   outcome.Said
	size   int64 // in bytes, at least 1
	errs   bool  // its text is that of an error
	known  bool
}

// Known reports whether the log has the arguments.
func (c *Call) Known() bool { return c.known }

// Known reports whether the log has the result.
func (r *Result) Known() bool { return r.known }

// few is the most bytes of a result that only acknowledges a call.
const few = 64

// short is the most bytes of a result of a tool that is known to look.
const short = 200

// CallOf reads the arguments of a call, which are JSON; hash is theirs.
func CallOf(tool string, args []byte, hash events.Hash) Call {
	if len(args) == 0 {
		return Call{}
	}
	return Call{subject: polling.Of(tool, args, hash), intent: outcome.Of(tool, args), sim: fingerprint.ArgsText(args), known: true}
}

// ResultOf reads a result; nil is one that the log does not report.
func ResultOf(result []byte) Result {
	if result == nil {
		return Result{}
	}
	r := Result{looked: polling.Read(result), came: outcome.Read(result), size: int64(max(1, len(result))), known: true}
	// In an object only its own word counts: it may have a list of errors that is empty.
	r.errs = r.came.Refuses() || (len(result) == 0 || result[0] != '{') && adapter.Rejects(result)
	return r
}

// New returns a memory of what callers look at. Looks within a second of each other are no
// waiting: no model asks so fast by itself.
func New(most int) *polling.Looks {
	l := polling.New(most)
	l.Least = 1000
	return l
}

// Begin fills in the event of a call. caller is unique within all flows, and id is that of the call.
func (c *Call) Begin(l *polling.Looks, e *events.Event, caller, id string) {
	if !c.known {
		return
	}
	e.Tool.ArgsSim = c.sim
	e.Tool.RetryOf = l.Call(caller, id, e.Time, c.subject)
}

// Returned fills in the event of a result of which the log has the text, for adapters that do not follow what calls look
// at. The event has its tool, status and content. Other events are left as they are.
func Returned(e *events.Event, text []byte) {
	if e.Kind == events.ToolResult {
		r := ResultOf(text)
		new(Call).End(nil, e, "", "", &r)
	}
}

// End fills in the event of a result, which has its status and content.
func (c *Call) End(l *polling.Looks, e *events.Event, caller, id string, r *Result) {
	if !r.known {
		return
	}
	if c.known {
		l.Result(caller, id, r.looked, e.Status == events.StatusError, e.Content)
	}
	// Programs often report errors as results. So the size of a result is reported only where it is
	// short and no error, since a short result of unlike calls is no evidence.
	looks := events.NamedEffect(e.Tool.Name) == events.EffectRead || r.came.FoundNothing()
	if e.Status <= events.StatusOK && (r.size <= few && !r.errs || r.size <= short && looks) {
		e.Tool.ResultSize = r.size
	}
	outcome.Set(e, c.intent, r.came)
}
