package analyzer_test

import (
	"slices"
	"strings"

	"weir/analyzer"
	"weir/events"
)

// peerHabit is when a peer speaks.
type peerHabit struct {
	// results: it judges when a result is in, so that a point after a result is a
	// point of judgement. Other peers judge calls, and are silent between them.
	results bool
	// runsShareFlow: a new run goes on with the work of the old one. Otherwise a new
	// run is a new action of a user, hence a new flow.
	runsShareFlow bool
}

var peerHabits = map[string]peerHabit{
	"openhands-v0":        {results: true},
	"openhands-sdk":       {results: true},
	"goose-fork-staged":   {results: true},
	"field-must-stop":     {results: true, runsShareFlow: true},
	"field-must-not-stop": {results: true, runsShareFlow: true},
}

// playedCase is what weir said of a case.
type playedCase struct {
	levels []level // at each expanded event
	rules  []string
	stack  []string
	unique int
}

// reasons names the rules that spoke, each once, in the order in which they did.
func (p *playedCase) reasons() string { return "[" + strings.Join(p.rules, " ") + "]" }

// play folds the case as things that happened, in order, and asks at every point
// what a dispatcher would have been told there:
//
//   - at a call: stop when the call would have been refused, be it by an order that
//     stood already or because the call itself is over a limit; so "the n-th call is
//     stopped" means that the verdict is out when call n is folded at the latest.
//     warn when a warning was given with it, or one stands that is not about another
//     call.
//   - at a result, if the peer judges results: stop when the call that it belongs to
//     would be refused if it were made again, by an order that is in force; an order
//     that only waits for the next call to use up a limit is not. warn as above.
//   - anywhere else: stop in the same way, warn only when a warning is given at that
//     very event.
func (c *peerCase) play(l analyzer.Limits, h peerHabit) (out playedCase) {
	e := analyzer.New(l)
	tr := newPeerTranslator(c, h, &l)
	var (
		p  analyzer.Partition
		f  = &analyzer.Flow{}
		fx analyzer.Effects
	)
	given := map[string]events.Verdict{} // warnings, by id
	for _, op := range expandOps(c.Events, 0) {
		s := tr.translate(op)
		if s.newFlow {
			f = &analyzer.Flow{}
		}
		if s.restart {
			f = reread(f)
		}
		says := levelOK
		if s.ask != nil {
			says, _ = wouldBe(e, p, f, s.before, *s.ask)
		}
		fx.Reset()
		for i := range s.events {
			e.Step(&p, f, &s.events[i], &fx)
		}
		warned := false
		for i := range fx.Verdicts {
			v := &fx.Verdicts[i]
			if v.Action == events.Warn {
				warned, given[v.ID] = true, *v
			}
			if name := v.RuleID + " " + string(v.Action); !slices.Contains(out.rules, name) {
				out.rules = append(out.rules, name)
			}
		}
		var standing []events.Verdict
		if f.Events() > 0 {
			standing = e.View(f).Orders
		}
		if s.ask == nil && tr.call != nil && (h.results || s.judged || !s.result) {
			if level, id := wouldBe(e, p, f, nil, *tr.call); level == levelStop && inForce(standing, id) {
				says = levelStop
			}
		}
		if s.ask != nil || s.result && h.results {
			for _, v := range standing {
				warned = warned || v.Action == events.Warn && concerns(given[v.ID], tr.call)
			}
		}
		if warned {
			says = higher(says, levelWarn)
		}
		out.levels = append(out.levels, says)
	}
	if f.Events() > 0 {
		out.stack, out.unique = f.Stack(), len(e.View(f).Parties)
	}
	return out
}

// concerns tells whether a warning is about more than one other call.
func concerns(warning events.Verdict, call *events.Event) bool {
	single := warning.RuleID == analyzer.Rules[analyzer.RuleRepetition].Name || warning.RuleID == analyzer.Rules[analyzer.RuleRepetitionBlind].Name
	return !single || call == nil || warning.ArgsHash == call.Tool.ArgsHash.String()
}

// wouldBe tells what a dispatcher is told that announces the call now, after the events
// before it, and the id of that verdict. The flow stays as it is.
func wouldBe(e *analyzer.Engine, p analyzer.Partition, f *analyzer.Flow, before []events.Event, call events.Event) (level, string) {
	f = f.Clone()
	var fx analyzer.Effects
	for i := range before {
		e.Step(&p, f, &before[i], &fx)
	}
	call.ID, call.Ask = "asked", true
	e.Step(&p, f, &call, &fx)
	switch {
	case fx.Answer == nil:
		return levelOK, ""
	case fx.Answer.ControlledCutoff || fx.Answer.Action == events.Throttle:
		return levelStop, fx.Answer.ID
	case fx.Answer.Action == events.Warn:
		return levelWarn, fx.Answer.ID
	}
	return levelOK, ""
}

func inForce(standing []events.Verdict, id string) bool {
	return slices.ContainsFunc(standing, func(v events.Verdict) bool { return v.ID == id && v.Effective == "now" })
}

// reread is what a restart does to a flow.
func reread(f *analyzer.Flow) *analyzer.Flow {
	record, err := f.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	var next analyzer.Flow
	if err := next.UnmarshalBinary(f.Key(), record); err != nil {
		panic(err)
	}
	return &next
}
