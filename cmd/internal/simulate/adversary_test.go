package simulate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"weir/cmd/internal/gate/gatetest"
	"weir/events"
)

// adversary is a program that may only send. It injects events into flows of a dispatcher and into
// flows of its own, as POST /v1/events admits and marks them. Beside the plain fold of each
// partition it has one of the same log without its events, which the answers are held against.
//
// Two invariants follow. In the flows of the dispatcher, no check passes that a budget or a stop of
// an operator refuses without the injections. In flows that it does not name, every answer and every
// verdict is the same, byte for byte.
type adversary struct {
	rand *rand.Rand
	// near sends into the flows of the dispatcher, and far into flows of its own.
	near, far gatetest.Adversary
	made      int // checks and orders of the dispatcher

	alone []*plainFlows // by partition of the events
	apart map[string]bool
}

const (
	guarded = "guarded-"
	mine    = "mine-"
	flowsOf = 3 // how many flows of each there are
)

// newAdversary draws from a stream of its own, so that the rest of a run is what it would be with
// other injections.
func newAdversary(seed uint64, alone []*plainFlows) *adversary {
	a := &adversary{rand: rand.New(rand.NewPCG(seed, 34)), alone: alone, apart: make(map[string]bool)}
	names := []string{"a", "b", "read", "dispatcher", "worker-1", "search", "ann"}
	a.near = gatetest.Adversary{Rand: a.rand, Names: names, Source: "dispatcher"}
	a.far = a.near
	for n := range flowsOf {
		a.near.Flows, a.far.Flows = append(a.near.Flows, fmt.Sprint(guarded, n)), append(a.far.Flows, fmt.Sprint(mine, n))
	}
	// An access file binds senders to the trees that they may name.
	a.near.Plain = func(ev *events.Event) bool { return ev.ParentCorrelationID == "" && ev.RootCorrelationID == "" }
	return a
}

// touches reports whether it may name a flow.
func (a *adversary) touches(flow string) bool {
	return strings.HasPrefix(flow, guarded) || strings.HasPrefix(flow, mine)
}

// turn lets the dispatcher check some calls, with injections before each.
func (a *adversary) turn(w *world) {
	for range 1 + a.rand.IntN(4) {
		now := events.StampOf(w.clock.Now())
		for range a.rand.IntN(3) {
			by := &a.near
			if a.rand.IntN(3) == 0 {
				by = &a.far
			}
			ev := by.Event(now)
			a.put(w, &ev, true)
			w.stats.Injected++
		}
		a.put(w, a.honest(now), false)
	}
}

// put appends an event to the log of its flow.
func (a *adversary) put(w *world, ev *events.Event, injected bool) {
	w.append(w.events[w.place(ev.FlowKey(), len(w.events))], entry{value: string(ev.AppendJSON(nil)), injected: injected})
}

// honest is an event of the dispatcher: a check, or rarely an order of an operator.
func (a *adversary) honest(at events.Stamp) *events.Event {
	a.made++
	ev := &events.Event{ID: fmt.Sprint("h", a.made), Source: "dispatcher", Time: at, CorrelationID: fmt.Sprint(guarded, a.rand.IntN(flowsOf)), From: events.Party{Agent: "a"}}
	switch x := a.rand.IntN(60); {
	case x == 0:
		ev.Kind, ev.Operator, ev.From = events.OperatorStop, &events.Operator{Reason: "r", By: "ann"}, events.Party{}
	case x < 30:
		ev.Kind, ev.Ask, ev.To, ev.HadWork = events.AgentCall, true, events.Party{Agent: "b"}, events.Yes
	default:
		ev.Kind, ev.Ask, ev.Tool = events.ToolCall, true, events.Tool{Name: "read", CallID: ev.ID, ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(a.made) + 1}}
	}
	// Ids of the past and of the time to come.
	a.near.IDs = []string{ev.ID, fmt.Sprint("h", a.made+1), fmt.Sprint("h", a.made+2), fmt.Sprint("h", 1+a.rand.IntN(a.made))}
	a.far.IDs = a.near.IDs
	return ev
}

// taken folds a record without the injections, and holds its answer against that of the plain fold.
func (a *adversary) taken(w *world, n int, e *entry) {
	at := w.events[n].end() - 1
	if e.injected {
		a.timePasses(w, n, at, e)
		return
	}
	a.alone[n].fold(at, e.appended, []byte(e.value))
	beside, alone := w.flows[n].answers[at], a.alone[n].answers[at]
	if beside == "" && alone == "" {
		return
	}
	var ev events.Event
	must(events.Decode([]byte(e.value), &ev))
	flow := ev.FlowKey()
	switch {
	case !a.touches(flow):
		if beside != alone {
			w.violate("events in one flow change no answer in another", "%s:\n got %s\nwant %s", e.value, beside, alone)
		}
		return
	case a.apart[flow]:
		return
	}
	got, want := verdictOf(beside), verdictOf(alone)
	if want.Stops() {
		w.stats.RefusedAlone++
	}
	switch {
	// Patterns are cleared by work that others report, which SECURITY.md lists.
	case want.Stops() && !got.Stops() && holds(want):
		w.violate("a sender frees no check of others", "%s:\n got %s\nwant %s", e.value, beside, alone)
	case want.Stops() != got.Stops():
		// The flow has made other calls from here on.
		a.apart[flow] = true
	}
}

// timePasses gives the log without the injection the time that the log has with it. A log has one time for all its flows,
// and a deadline that becomes ripe is judged by the limits of that moment. The time is never later than the append.
func (a *adversary) timePasses(w *world, n int, at int64, e *entry) {
	beside, alone := w.flows[n].partition.Watermark, a.alone[n].partition.Watermark
	if beside > max(alone, e.appended) {
		w.violate("no sender moves the time of the log past its append", "%s: from %d to %d, appended at %d", e.value, alone, beside, e.appended)
	}
	tick := events.Event{ID: "time", Time: beside, Kind: events.Tick}
	a.alone[n].fold(at, beside, tick.AppendJSON(nil))
}

// holds reports whether no report takes an order back: it is of a budget of calls, or of a person,
// which measures nothing.
func holds(v *events.Verdict) bool {
	return v.HTTPStatus == http.StatusPaymentRequired && v.Unit == events.UnitCalls || v.Limit == nil
}

// verdictOf reads an answer; none is one that stops nothing.
func verdictOf(line string) *events.Verdict {
	v := new(events.Verdict)
	if line != "" {
		must(events.DecodeVerdict([]byte(line), v))
	}
	return v
}

// checkEnd compares the verdicts about flows that it has not named.
func (a *adversary) checkEnd(w *world) {
	for n := range w.flows {
		got, want := a.untouched(w.flows[n].verdicts), a.untouched(a.alone[n].verdicts)
		for flow, lines := range got {
			if !slices.Equal(lines, want[flow]) {
				w.violate("events in one flow change no verdict of another", "%s:\n got %s\nwant %s", flow, strings.Join(lines, "\n     "), strings.Join(want[flow], "\n     "))
			}
			delete(want, flow)
		}
		if len(want) > 0 {
			w.violate("events in one flow change no verdict of another", "missing: %v", want)
		}
	}
}

func (a *adversary) untouched(verdicts []said) map[string][]string {
	out := make(map[string][]string)
	for i := range verdicts {
		if v := verdictOf(verdicts[i].line); v.CorrelationID != "" && !a.touches(v.CorrelationID) {
			// A renewal that falls due as limits change names those of before or after: it is made with
			// the next record, which may be one of a sender.
			v.ConfigVersion = ""
			out[v.CorrelationID] = append(out[v.CorrelationID], string(v.AppendJSON(nil)))
		}
	}
	return out
}
