package analyzer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/events"
	"weir/events/fingerprint"
)

// story is what agents did, as a producer tells it: results and errors by their
// hashes, work only where that is said.
type story struct {
	at     events.Stamp
	gap    time.Duration // from one event to the next
	work   events.Tri    // of hops
	near   bool          // results carry a fingerprint
	events []events.Event
	// No agent reports before one of the events does.
	unasked bool
}

func newStory() *story { return &story{at: 1_767_225_600_000, gap: time.Second} }

func (s *story) add(kind events.Kind, from, to string) *events.Event {
	s.at = s.at.Add(s.gap)
	s.events = append(s.events, events.Event{ID: fmt.Sprint("e", len(s.events)), Source: "/story", Time: s.at, Kind: kind, CorrelationID: "story",
		From: events.Party{Agent: from}, To: events.Party{Agent: to}})
	return &s.events[len(s.events)-1]
}

func (s *story) user(to, text string) {
	ev := s.add(events.AgentCall, "", to)
	ev.Origin, ev.Content = events.OriginUser, fingerprint.Content([]byte(text))
}

func (s *story) hop(from, to, text string) {
	ev := s.add(events.AgentCall, from, to)
	ev.HadWork, ev.Content = s.work, fingerprint.Content([]byte(text))
}

func (s *story) answer(from, to, text string) {
	s.add(events.AgentReturn, from, to).Content = fingerprint.Content([]byte(text))
}

// call makes a tool call that has no result yet and returns its id.
func (s *story) call(who, tool, args string) (id string) {
	ev := s.add(events.ToolCall, who, "")
	ev.Tool = events.Tool{Name: tool, CallID: ev.ID, ArgsHash: fingerprint.Args([]byte(args), nil)}
	return ev.ID
}

func (s *story) result(who, tool, id, text string) *events.Event {
	ev := s.add(events.ToolResult, who, "")
	ev.Tool, ev.Status, ev.Content = events.Tool{Name: tool, CallID: id}, events.StatusOK, fingerprint.Content([]byte(text))
	if s.near {
		ev.Sim = fingerprint.Text([]byte(text))
	}
	return ev
}

func (s *story) tool(who, tool, args, text string) {
	s.result(who, tool, s.call(who, tool, args), text)
}

func (s *story) fail(who, tool, args, text string) *events.Event {
	ev := s.result(who, tool, s.call(who, tool, args), text)
	ev.Status, ev.ErrorType = events.StatusError, fingerprint.Error([]byte(text))
	return ev
}

// isCall reports whether a dispatcher could refuse the event.
func isCall(ev *events.Event) bool {
	return ev.By() == events.OriginAgent && (ev.Kind == events.AgentCall || ev.Kind == events.ToolCall)
}

// seen is what the default limits say of a story that they only watch: how many
// calls there are, and at which they warn and stop.
type seen struct {
	calls, warned, stopped int
	warnedBy, stoppedBy    string
}

func (s *story) watched() (out seen) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p    analyzer.Partition
		flow analyzer.Flow
		fx   analyzer.Effects
	)
	for i := range s.events {
		if isCall(&s.events[i]) {
			out.calls++
		}
		fx.Reset()
		e.Step(&p, &flow, &s.events[i], &fx)
		for _, v := range fx.Verdicts {
			switch {
			case v.Action == events.Warn && out.warned == 0:
				out.warned, out.warnedBy = out.calls, v.RuleID
			case v.Effective == "now" && out.stopped == 0:
				out.stopped, out.stoppedBy = out.calls, v.RuleID
			}
		}
	}
	return out
}

// obeyed tells how many calls are made and refused when a dispatcher asks before
// every call and makes none that is refused. Tools that were not called bring no
// result, agents that were not called do nothing; all others go on as told.
func (s *story) obeyed() (made, refused int) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p    analyzer.Partition
		flow analyzer.Flow
		fx   analyzer.Effects
	)
	unmade := map[string]bool{} // tool calls
	uncalled := map[string]bool{}
	for _, ev := range s.events {
		if ev.Kind == events.ToolResult && unmade[ev.Tool.CallID] || uncalled[ev.From.Agent] {
			continue
		}
		ev.Ask = isCall(&ev)
		fx.Reset()
		e.Step(&p, &flow, &ev, &fx)
		switch {
		case fx.Answer == nil:
			if ev.Kind == events.AgentCall { // a person's
				delete(uncalled, ev.To.Agent)
			}
		case fx.Answer.ControlledCutoff || fx.Answer.Action == events.Throttle:
			refused++
			unmade[ev.Tool.CallID] = true
			uncalled[ev.To.Agent] = ev.Kind == events.AgentCall && ev.To.ID() != ev.From.ID()
		default:
			made++
			delete(uncalled, ev.To.Agent)
		}
	}
	return made, refused
}

// namedCalls is how many calls one order names: the longest cycle of calls that a
// dispatcher ends by refusing them one by one.
const namedCalls = 16

// TestBehaviour tells stories and asserts at which call the default limits warn and
// stop. Calls are hops and tool calls, counted from 1; the n-th call stops when the
// order that refuses its like is in force before call n+1 is made, and 0 is never.
// An order that only waits for the next call is not a stop. A dispatcher that obeys
// must be refused nothing in honest work, and must see every loop end: few calls are
// made after the stop, however long the agents try.
func TestBehaviour(t *testing.T) {
	f := func(name string, warn, stop int, tell func(s *story)) {
		t.Helper()
		s := newStory()
		s.user("main", "do it")
		tell(s)
		got := s.watched()
		if got.warned != warn {
			t.Errorf("%s: warned at call %d of %d by %q, want %d", name, got.warned, got.calls, got.warnedBy, warn)
		}
		if got.stopped != stop {
			t.Errorf("%s: stopped at call %d of %d by %q, want %d", name, got.stopped, got.calls, got.stoppedBy, stop)
		}
		made, refused := s.obeyed()
		if stop == 0 && refused > 0 {
			t.Errorf("%s: %d of %d calls were refused, want none", name, refused, made+refused)
		}
		if stop > 0 && made > 2*stop {
			t.Errorf("%s: %d of %d calls were made, want at most twice %d", name, made, made+refused, stop)
		}
	}

	// Honest work.
	f("polling with changed results", 0, 0, func(s *story) {
		for i := range 38 {
			s.tool("main", "job_status", `{"job":7}`, fmt.Sprintf(`{"state":"running","done":%d}`, i))
		}
	})
	f("paging through a file", 0, 0, func(s *story) {
		for i := range 38 {
			s.tool("main", "read", fmt.Sprintf(`{"path":"a.log","offset":%d}`, 100*i), fmt.Sprint("lines from ", 100*i))
		}
	})
	f("reading on in a terminal", 0, 0, func(s *story) {
		for i := range 38 {
			s.tool("main", "next_output", `{"tty":1}`, fmt.Sprint("block ", i))
		}
	})
	f("edit, build, test, each time with another outcome", 0, 0, func(s *story) {
		for i := range 12 {
			s.tool("main", "edit", fmt.Sprintf(`{"patch":%d}`, i), "ok")
			s.fail("main", "build", `{"target":"all"}`, fmt.Sprint("undefined name in line ", i))
			s.tool("main", "test", `{"run":"all"}`, fmt.Sprint(i, " passed"))
		}
	})
	f("edits that are refused now and then, and else only acknowledged", 0, 0, func(s *story) {
		for i := range 30 {
			s.fail("main", "edit", fmt.Sprintf(`{"i":%d}`, i), "read the file first")
			s.tool("main", "edit", fmt.Sprintf(`{"j":%d}`, i), "")
			s.events[len(s.events)-1].Content = events.Hash{}
		}
	})
	f("polling a status whose text hardly changes", 0, 0, func(s *story) {
		s.near, s.gap = true, 3*time.Second
		for i := range 39 {
			s.tool("main", "status", `{"job":1}`, fmt.Sprintf("worker one is working on the first part of the job and has been for %d minutes, worker two waits for it", i))
		}
	})
	f("two screens in turn, each of which hardly changes", 0, 0, func(s *story) {
		s.near, s.gap = true, 5*time.Second
		for i := range 39 {
			s.tool("main", "shell", `{"cmd":"status"}`, fmt.Sprintf("worker one is working on the first part of the job and has been for %d minutes, worker two waits for it", i))
			s.tool("main", "shell", `{"cmd":"look"}`, fmt.Sprintf("the first worker reads the sources of the second module and will write its tests when it has read them all, so far %d", i))
		}
	})
	f("edits that all say ok", 0, 0, func(s *story) {
		for i := range 28 {
			s.tool("main", "edit", fmt.Sprintf(`{"patch":%d}`, i), "ok")
		}
	})
	f("five polls with the same result, five minutes apart", 0, 0, func(s *story) {
		s.gap = 150 * time.Second
		for range 5 {
			s.tool("main", "job_status", `{"job":7}`, "running")
		}
	})
	f("ten polls with the same result, half a minute apart", 6, 0, func(s *story) {
		s.gap = 15 * time.Second
		for range 9 {
			s.tool("main", "job_status", `{"job":7}`, "running")
		}
	})
	f("parallel batches of different calls", 0, 0, func(s *story) {
		for i := range 9 {
			var ids [4]string
			for k := range ids {
				s.gap = 0
				ids[k] = s.call("main", "read", fmt.Sprintf(`{"file":%d}`, 4*i+k))
			}
			s.gap = time.Second
			for k := len(ids) - 1; k >= 0; k-- {
				s.result("main", "read", ids[k], fmt.Sprint("text of ", 4*i+k))
			}
		}
	})
	f("a hub that calls four workers in turn, which work", 0, 0, func(s *story) {
		s.gap = 2 * time.Second
		for i := range 20 {
			worker := fmt.Sprint("worker-", i%4)
			s.hop("main", worker, fmt.Sprint("part ", i))
			s.tool(worker, "search", fmt.Sprintf(`{"part":%d}`, i), fmt.Sprint("found ", i))
			s.answer(worker, "main", fmt.Sprint("part ", i, " is done"))
		}
	})
	f("a hub that calls nine workers at once", 6, 0, func(s *story) {
		s.work = events.No
		s.gap = 0
		for i := range 9 {
			s.hop("main", fmt.Sprint("worker-", i), "your part")
		}
		s.gap = time.Second
		for i := range 9 {
			s.answer(fmt.Sprint("worker-", i), "main", fmt.Sprint("result ", i))
		}
	})
	f("a person talks to an agent that asks another", 0, 0, func(s *story) {
		s.work = events.No
		s.gap = 5 * time.Second
		for range 40 {
			s.user("main", "and now?")
			s.hop("main", "expert", "what now?")
			s.answer("expert", "main", "wait")
			s.answer("main", "", "please wait")
		}
	})
	f("a person asks for the same call again and again", 0, 0, func(s *story) {
		for range 30 {
			s.user("main", "once more")
			s.tool("main", "ping", `{}`, "pong")
		}
	})
	f("a pipeline of four that works off twelve documents", 0, 0, func(s *story) {
		s.gap = 3 * time.Second
		stages := []string{"main", "extract", "translate", "review"}
		for doc := range 12 {
			for i, to := range stages[1:] {
				s.hop(stages[i], to, fmt.Sprint(to, " document ", doc))
				s.tool(to, "do_"+to, fmt.Sprintf(`{"document":%d}`, doc), fmt.Sprint(to, " of ", doc))
			}
			for i := len(stages) - 1; i > 0; i-- {
				s.answer(stages[i], stages[i-1], fmt.Sprint("document ", doc))
			}
		}
	})
	f("two agents that take turns and work", 0, 0, func(s *story) {
		s.gap = 5 * time.Second
		for i := range 19 {
			s.hop("main", "coder", fmt.Sprint("remark ", i))
			s.tool("coder", "edit", fmt.Sprintf(`{"patch":%d}`, i), "ok")
			s.hop("coder", "main", fmt.Sprint("please review ", i))
			s.tool("main", "diff", fmt.Sprintf(`{"patch":%d}`, i), fmt.Sprint("patch ", i))
		}
	})
	f("a group chat in which the same speaker comes twice in a row", 0, 0, func(s *story) {
		s.gap = 5 * time.Second
		for i := range 5 {
			s.hop("main", "writer", fmt.Sprint("part ", i))
			s.hop("writer", "writer", fmt.Sprint("first half of ", i))
			s.tool("writer", "save", fmt.Sprintf(`{"part":%d}`, i), fmt.Sprint("version ", i))
			s.hop("writer", "main", fmt.Sprint("second half of ", i))
		}
	})
	f("a short exchange without work", 0, 0, func(s *story) {
		s.work = events.No
		for i := range 2 {
			s.hop("main", "expert", fmt.Sprint("question ", i))
			s.hop("expert", "main", fmt.Sprint("question back ", i))
		}
	})
	f("asking how far it is, while it moves", 0, 0, func(s *story) {
		s.work = events.No
		s.gap = 15 * time.Second
		for i := range 7 {
			s.hop("main", "builder", "how far are you?")
			s.answer("builder", "main", fmt.Sprint(10*i, " percent"))
		}
	})
	f("the same failing call, five at once in each of two rounds", 0, 0, func(s *story) {
		for range 2 {
			var ids []string
			for range 5 {
				ids = append(ids, s.call("main", "fetch", `{"url":"u"}`))
			}
			for _, id := range ids {
				s.result("main", "fetch", id, "no such page").Status = events.StatusError
			}
		}
	})
	f("long waits that end the same", 0, 0, func(s *story) {
		for i := range 30 {
			s.tool("main", "read", fmt.Sprintf(`{"file":%d}`, i), fmt.Sprint("text of ", i%5))
			s.events[len(s.events)-1].DurationMS = 20_000
		}
	})
	// looks asks for the state of a job every two seconds, which says a little more each time.
	looks := func(took float64, status events.Status) func(*story) {
		return func(s *story) {
			s.gap, s.near = time.Second, true
			for i := range 20 {
				ev := s.result("main", "job_status", s.call("main", "job_status", `{"job":7}`), fmt.Sprintf(`{"job": 7, "kind": "export", "state": "running", "created": "2026-11-23T17:00:00Z", `+
					`"progress": %d, "rows": %d, "error": null, "links": {"self": "/jobs/7", "cancel": "/jobs/7/cancel", "log": "/jobs/7/log"}}`, 4*i, 1311*i))
				ev.DurationMS, ev.Status = took, status
			}
		}
	}
	f("a long state that changes a little, every two seconds", 0, 0, looks(900, events.StatusOK))
	f("the same where times may be made up", 4, 7, looks(0, events.StatusOK))
	f("the same of an error", 4, 7, looks(900, events.StatusError))
	f("other calls with a few short answers", 0, 0, func(s *story) {
		for i := range 40 {
			s.tool("main", "search", fmt.Sprintf(`{"q":%d}`, i), []string{"[]", "none", "no match", "ok"}[i%4])
			s.events[len(s.events)-1].Tool.ResultSize = 8
		}
	})
	f("the same call resent as a retry", 0, 0, func(s *story) {
		for i := range 10 {
			id := s.call("main", "fetch", `{"url":"u"}`)
			if i > 0 {
				s.events[len(s.events)-1].Tool.RetryOf = "e1"
			}
			s.result("main", "fetch", id, "busy").Status = events.StatusError
		}
	})
	f("every event delivered twice", 0, 0, func(s *story) {
		for i := range 2 {
			s.tool("main", "read", fmt.Sprintf(`{"file":%d}`, i), "same text")
			s.events = append(s.events, s.events[len(s.events)-2:]...)
			s.events = append(s.events, s.events[len(s.events)-4:]...)
		}
	})
	f("the same call, no results in the log", 15, 0, func(s *story) {
		for range 20 {
			s.call("main", "read", `{"file":"a"}`)
		}
	})
	f("a cycle of seven calls, no results in the log", 0, 0, func(s *story) {
		for i := range 35 {
			s.call("main", "read", fmt.Sprintf(`{"file":%d}`, i%7))
		}
	})
	f("hops of a source that tells nothing of work", 18, 0, func(s *story) {
		for i := range 9 {
			s.hop("main", "expert", fmt.Sprint("question ", i))
			s.hop("main", "expert", fmt.Sprint("another one ", i))
		}
	})

	// Loops.
	f("the same call with the same result", 3, 6, func(s *story) {
		for range 30 {
			s.tool("main", "read", `{"file":"a"}`, "text")
		}
	})
	f("the same call, its keys in another order, its result with another time", 3, 6, func(s *story) {
		for i := range 30 {
			args := []string{`{"file":"a","limit":10}`, `{"limit":1e1, "file":"a"}`}[i%2]
			s.tool("main", "read", args, fmt.Sprintf("read at 2026-01-01T00:%02d:00Z: text", i))
		}
	})
	f("the same call among those of others", 7, 16, func(s *story) {
		for i := range 10 {
			s.tool("main", "read", `{"file":"a"}`, "text")
			s.tool("other", "search", fmt.Sprintf(`{"q":%d}`, i), fmt.Sprint("found ", i))
			s.tool("third", "search", fmt.Sprintf(`{"q":%d}`, i), fmt.Sprint("found ", i))
		}
	})
	f("results that are nearly the same", 4, 7, func(s *story) {
		s.near = true
		for i := range 30 {
			s.tool("main", "status", `{}`, fmt.Sprintf("the deployment of the service waits for three of five machines in the second zone which do not answer "+
				"their health checks since the last release was rolled out to the fleet by the nightly job of the platform team, look number %d", i))
		}
	})
	// Whatever the period: two calls after the first round are told, five are enough.
	for period := 2; period <= namedCalls; period++ {
		f(fmt.Sprint("a cycle of ", period, " calls with the same results"), period+2, period+5, func(s *story) {
			for i := range 90 {
				s.tool("main", "read", fmt.Sprintf(`{"file":%d}`, i%period), fmt.Sprint("text of ", i%period))
			}
		})
	}
	f("two tools in turn with the same results", 4, 7, func(s *story) {
		for range 20 {
			s.tool("main", "read", `{"file":"a"}`, "text")
			s.tool("main", "list", `{"dir":"d"}`, "a")
		}
	})
	f("other arguments, the same error", 3, 6, func(s *story) {
		for i := range 30 {
			s.fail("main", "shell", fmt.Sprintf(`{"command":"ssh -p %d host"}`, 2200+i), "Permission denied")
		}
	})
	f("other arguments, the same empty result", 30, 60, func(s *story) {
		for i := range 150 {
			s.tool("main", "search", fmt.Sprintf(`{"filter":%d}`, i), "[]")
		}
	})
	f("calls without end in one turn, which bring what was known", 150, 250, func(s *story) {
		for i := range 300 {
			s.tool("main", fmt.Sprint("tool", i%7), fmt.Sprintf(`{"i":%d}`, i), fmt.Sprintf("the state of the machine is known, and it is that of the call number %d", i%7/7))
		}
	})
	f("bulk work, each call of which brings something new", 0, 0, func(s *story) {
		for i := range 300 {
			s.tool("main", fmt.Sprint("tool", i%7), fmt.Sprintf(`{"i":%d}`, i), fmt.Sprint("result ", i))
		}
	})
	f("an agent that calls itself", 0, 1, func(s *story) {
		for range 5 {
			s.hop("main", "main", "think again")
			s.events[len(s.events)-1].TransferMode = events.ReturnToCaller
		}
	})
	f("a pair with the same messages", 4, 6, func(s *story) {
		s.work = events.No
		s.gap = 5 * time.Second
		for range 20 {
			s.hop("main", "peer", "your turn")
			s.hop("peer", "main", "no, yours")
		}
	})
	f("a pair with new messages", 6, 12, func(s *story) {
		s.work = events.No
		s.gap = 5 * time.Second
		for i := range 20 {
			s.hop("main", "peer", fmt.Sprint("what about ", i))
			s.hop("peer", "main", fmt.Sprint("and what about ", i))
		}
	})
	f("a triangle with the same messages, a minute and a half apart", 6, 9, func(s *story) {
		s.work = events.No
		s.gap = 90 * time.Second
		ring := []string{"main", "b", "c"}
		for i := range 60 {
			s.hop(ring[i%3], ring[(i+1)%3], "status")
		}
	})
	f("a cycle of five agents", 10, 15, func(s *story) {
		s.work = events.No
		s.gap = 5 * time.Second
		ring := []string{"main", "b", "c", "d", "e"}
		for i := range 60 {
			s.hop(ring[i%5], ring[(i+1)%5], fmt.Sprint("take it ", i))
		}
	})
	f("a chain of agents that call new agents", 0, 19, func(s *story) {
		from := "main"
		for i := range 20 {
			to := fmt.Sprint("child-", i)
			s.hop(from, to, "split it")
			s.tool(to, "plan", fmt.Sprintf(`{"part":%d}`, i), fmt.Sprint("plan ", i))
			from = to
		}
	})
	f("the same delegation, the same answer", 3, 6, func(s *story) {
		s.work = events.No
		s.gap = 15 * time.Second
		for range 30 {
			s.hop("main", "expert", "solve it")
			s.answer("expert", "main", "I cannot")
		}
	})
	f("pushing on at once, other words each time and never any work", 3, 6, func(s *story) {
		s.work = events.No
		for i := range 15 {
			s.hop("main", "solver", "continue, please keep solving")
			s.answer("solver", "main", fmt.Sprint("let us think about step ", i))
			s.events[len(s.events)-1].HadWork = events.No
		}
	})
	f("the same call in other words, with nearly the same result", 5, 10, func(s *story) {
		s.near = true
		words := strings.Fields("select the names of all the employees that were hired in the department of sales before the first of may and order them by their age")
		for i := range 30 {
			args := strings.Join(words, " ") + fmt.Sprint(" variant ", i%8)
			s.tool("main", "query", `{"sql":"`+args+`"}`, fmt.Sprintf("unknown column in the field list of the statement that was sent to the server, near the word that "+
				"stands in the middle of the second line of it, see the manual of the version that you use for the right syntax, number %d", i))
			s.events[len(s.events)-2].Tool.ArgsSim = fingerprint.Text([]byte(args))
		}
	})
	f("the same call in other words each time, never the same twice", 5, 10, func(s *story) {
		s.near = true
		words := strings.Fields("select the names of all the employees that were hired in the department of sales before the first of may and order them by their age")
		for i := range 60 {
			args := strings.Join(words, " ") + fmt.Sprint(" variant ", i)
			s.tool("main", "query", `{"sql":"`+args+`"}`, fmt.Sprintf("unknown column in the field list of the statement that was sent to the server, near the word that "+
				"stands in the middle of the second line of it, see the manual of the version that you use for the right syntax, number %d", i))
			s.events[len(s.events)-2].Tool.ArgsSim = fingerprint.Text([]byte(args))
		}
	})
	f("the same delegation after silences that end the episode", 3, 6, func(s *story) {
		s.work = events.No
		for range 30 {
			s.gap = 15 * time.Minute
			s.hop("main", "expert", "solve it")
			s.gap = time.Second
			s.answer("expert", "main", "I cannot")
		}
	})
	f("a worker that repeats itself in call and answer", 6, 8, func(s *story) {
		s.gap = 3 * time.Second
		for i := range 30 {
			s.hop("main", "worker", fmt.Sprint("try it again, please, for the time ", i))
			s.tool("worker", "search", `{"q":"it"}`, fmt.Sprint("took ", i, " pages"))
			s.answer("worker", "main", "nothing found")
		}
	})
}
