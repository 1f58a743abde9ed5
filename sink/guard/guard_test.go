package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/sink/guard"
	"weir/sink/guard/guardtest"
	"weir/sink/sign"
)

// up is a weir as it should be.
func up(*guardtest.Weir) {}

func number(n float64) *float64 { return &n }

// rig is a guard and the weir that it follows, in time that passes by itself.
type rig struct {
	*testing.T
	weir *guardtest.Weir
	*guard.Guard
	seen []guard.Decision
}

// inBubble runs a test of a guard. The guard may not be connected yet.
func inBubble(t *testing.T, o guard.Options, begin func(*guardtest.Weir), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		weir := guardtest.New()
		begin(weir)
		r := &rig{T: t, weir: weir}
		o.URL, o.Client, o.Source = guardtest.URL, weir.Client(), "test"
		o.Observe = func(_ guard.Call, d guard.Decision) { r.seen = append(r.seen, d) }
		var err error
		if r.Guard, err = guard.New(o); err != nil {
			t.Fatal(err)
		}
		defer func() {
			weir.Set(guardtest.Away) // so that its streams end, too
			r.Close()
		}()
		synctest.Wait()
		test(r)
	})
}

func (r *rig) decided(c guard.Call, action events.Action, source guard.Source, isStale bool) *guard.Stop {
	r.Helper()
	d := r.Check(r.Context(), c)
	if d.Action != action || d.Source != source || d.Stale != isStale {
		r.Errorf("%+v: %s by %s, stale %v; want %s by %s, stale %v", c, d.Action, d.Source, d.Stale, action, source, isStale)
	}
	s, _ := errors.AsType[*guard.Stop](d.Err())
	if (s != nil) != d.Stopped() {
		r.Errorf("stopped %v with error %v", d.Stopped(), d.Err())
	}
	return s
}

func deny(flow string) events.Verdict {
	return events.Verdict{CorrelationID: flow, Action: "deny", Reason: events.MaxTotalCalls, Effective: "next", Unit: events.UnitCalls,
		Limit: number(100), Observed: number(100), ExpiresAt: events.RFC3339(events.StampOf(time.Now().Add(time.Hour))),
		Message: "Limit used up, the next call will be rejected: total call count 100 has reached the limit (100)", AgentMessage: "Stop."}
}

func TestAGuardFollowsOrders(t *testing.T) {
	inBubble(t, guard.Options{}, up, func(r *rig) {
		weir := r.weir
		call := guard.Call{Flow: "f", From: "planner", To: "coder"}
		if err := r.Wait(r.Context()); err != nil || r.Stale() {
			t.Fatal(err, r.Stale())
		}
		r.decided(call, events.Allow, guard.FromTable, false)
		weir.Give(deny("f"))
		synctest.Wait()
		s := r.decided(call, events.Deny, guard.FromTable, false)
		if s == nil || s.Reason != events.MaxTotalCalls || s.Limit != 100 || s.Observed != 101 || s.RetryAfter != 0 || s.Advice != guard.FinishWithPartialWork ||
			s.Flow != "f" || s.VerdictID != "v-0" || s.AgentMessage != "Stop." ||
			s.Error() != "Agent call rejected: total call count 100 has reached the limit (100) (max_total_calls_exceeded, 101 of 100)" {
			t.Errorf("%+v", s)
		}
		r.decided(guard.Call{Flow: "f", To: "coder"}, events.Allow, guard.FromTable, false) // a person's
		r.decided(guard.Call{Flow: "g", From: "planner", To: "coder"}, events.Allow, guard.FromTable, false)
		synctest.Wait()
		acks := weir.Reports()
		if len(acks) != 1 || acks[0].Kind != events.VerdictAck || acks[0].Ack == nil || acks[0].Ack.VerdictID != "v-0" || !acks[0].Ack.Applied ||
			acks[0].CorrelationID != "f" || acks[0].From.Agent != "planner" || acks[0].To.Agent != "coder" || acks[0].Source != "test" {
			t.Errorf("acks %+v", acks)
		}
		if err := r.Release(r.Context(), "f", "ann", "a false alarm", time.Minute); err != nil {
			t.Error(err)
		}
		if got := weir.Reports()[1]; got.Kind != events.OperatorRelease || got.Operator.By != "ann" || got.Operator.For != time.Minute {
			t.Errorf("released by %+v", got)
		}
		weir.Give(events.Verdict{CorrelationID: "f", Action: "allow", Reason: events.MaxTotalCalls})
		synctest.Wait()
		r.decided(call, events.Allow, guard.FromTable, false)
		throttle := deny("f")
		throttle.Action, throttle.Reason, throttle.Unit, throttle.Effective = "throttle", events.CallRate, events.UnitSeconds, "now"
		throttle.ExpiresAt = events.RFC3339(events.StampOf(time.Now().Add(41*time.Second - 500*time.Millisecond)))
		weir.Give(throttle)
		synctest.Wait()
		if s := r.decided(call, events.Throttle, guard.FromTable, false); s.RetryAfter != 41*time.Second || s.Advice != guard.BackOff || s.Observed != 100 {
			t.Errorf("%+v", s)
		}
		time.Sleep(41*time.Second + 200*time.Millisecond) // in the bubble
		r.decided(call, events.Allow, guard.FromTable, false)
		time.Sleep(time.Minute)
		if r.Orders() != 0 {
			t.Errorf("%d orders are kept after they expired", r.Orders())
		}
		if len(r.seen) != 2 {
			t.Errorf("%d decisions were observed", len(r.seen))
		}
	})
}

func TestAGuardFailsBounded(t *testing.T) {
	call := guard.Call{Flow: "f", From: "planner", To: "coder"}
	other := guard.Call{Flow: "g", From: "planner", To: "coder"}
	f := func(how guardtest.State) {
		t.Helper()
		limits := func(w *guardtest.Weir) {
			w.SetLimits(`{"max_total_calls":{"max":5},"call_rate_per_flow":{"stop":3,"window":"10s"},"max_tool_calls":{"max":1}}`)
		}
		inBubble(t, guard.Options{}, limits, func(r *rig) {
			weir := r.weir
			weir.Give(deny("f"))
			synctest.Wait()
			weir.Set(how)
			time.Sleep(5*time.Second + time.Millisecond)
			r.decided(call, events.Deny, guard.FromTable, true)
			for range 6 { // three times two
				r.decided(other, events.Allow, guard.StaleOpen, true)
			}
			s := r.decided(other, events.Throttle, guard.LocalLimit, true)
			if s.Reason != events.CallRate || s.Limit != 6 || s.Observed != 7 || s.RetryAfter != 10*time.Second || s.Advice != guard.BackOff {
				t.Errorf("%+v", s)
			}
			for range 3 {
				r.decided(guard.Call{Flow: "g", From: "a", Tool: "x"}, events.Allow, guard.StaleOpen, true)
			}
			r.decided(guard.Call{Flow: "g", From: "a", Tool: "x"}, events.Deny, guard.LocalLimit, true)
			r.decided(guard.Call{Flow: "g", To: "a"}, events.Allow, guard.StaleOpen, true) // a person's
			for range 9 {
				time.Sleep(20 * time.Second)
				r.decided(other, events.Allow, guard.StaleOpen, true)
			}
			if s := r.decided(other, events.Deny, guard.LocalLimit, true); s.Reason != events.MaxTotalCalls || s.Limit != 15 || s.Observed != 16 || s.RetryAfter != 0 {
				t.Errorf("%+v", s)
			}
			if n := r.Counts().LocalLimited.Load(); n != 3 {
				t.Errorf("%d were limited", n)
			}
			weir.Set(guardtest.Up)
			time.Sleep(40 * time.Second) // longer than the longest wait
			r.decided(other, events.Allow, guard.FromTable, false)
			r.decided(call, events.Deny, guard.FromTable, false)
			synctest.Wait()
			if len(weir.Reports()) != 2 {
				t.Errorf("%d refusals were reported", len(weir.Reports()))
			}
			time.Sleep(time.Hour)
			weir.Set(how)
			time.Sleep(6 * time.Second)
			r.decided(call, events.Allow, guard.StaleOpen, true) // the order has expired
		})
	}
	f(guardtest.Away)
	f(guardtest.Mute)
	f(guardtest.Erred)
}

func TestAGuardThatWasNeverConnected(t *testing.T) {
	call := guard.Call{Flow: "f", From: "a", To: "b"}
	away := func(w *guardtest.Weir) { w.Set(guardtest.Away) }
	inBubble(t, guard.Options{Bounds: guard.Bounds{Calls: 1}}, away, func(r *rig) {
		for range 3 {
			r.decided(call, events.Allow, guard.StaleOpen, true)
		}
		r.decided(call, events.Deny, guard.LocalLimit, true)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		if err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	inBubble(t, guard.Options{FailClosed: true}, away, func(r *rig) {
		s := r.decided(call, events.Deny, guard.StaleClosed, true)
		if s.Reason != guard.ReasonStale || !math.IsNaN(s.Limit) || s.RetryAfter != 5*time.Second || s.Advice != guard.BackOff {
			t.Errorf("%+v", s)
		}
		r.decided(guard.Call{Flow: "f", To: "b"}, events.Allow, guard.StaleOpen, true)
		r.weir.Set(guardtest.Up)
		time.Sleep(time.Minute)
		r.decided(call, events.Allow, guard.FromTable, false)
	})
}

// TestAGuardResumes cuts the stream again and again.
func TestAGuardResumes(t *testing.T) {
	inBubble(t, guard.Options{}, up, func(r *rig) {
		weir := r.weir
		for i := range 20 {
			weir.Give(deny("f" + string(rune('a'+i))))
			synctest.Wait()
			weir.Set(guardtest.Away)
			synctest.Wait()
			weir.Set(guardtest.Up)
			time.Sleep(31 * time.Second)
		}
		if n := r.Counts().Orders.Load(); n != 20 || r.Orders() != 20 || r.Stale() {
			t.Errorf("%d orders were read and %d are known, stale %v", n, r.Orders(), r.Stale())
		}
		weir.Forget()
		weir.Set(guardtest.Away)
		synctest.Wait()
		weir.Set(guardtest.Up)
		time.Sleep(31 * time.Second)
		if r.Stale() || r.Orders() != 20 {
			t.Errorf("weir lost its log: stale %v with %d orders", r.Stale(), r.Orders())
		}
		r.decided(guard.Call{Flow: "fa", From: "a", To: "b"}, events.Deny, guard.FromTable, false)
	})
}

func TestAsk(t *testing.T) {
	left := []events.Remaining{{RuleID: "max_total_calls", Left: 2, Limit: 10, Unit: events.UnitCalls}, {RuleID: "max_cost_usd", Left: 1, Limit: 2, Unit: events.UnitUSD, Forecast: &events.Forecast{Runs: 25, Low: 1.5, Expected: 2.5, High: 9}}}
	answer := func(ev *events.Event) *events.Verdict {
		switch ev.To.Agent {
		case "denied":
			return &events.Verdict{ID: "d", Mode: "enforce", Action: "deny", Reason: events.MaxTotalCalls, Limit: number(10), Observed: number(11), Unit: events.UnitCalls, HTTPStatus: 429, Message: "no", Remaining: left}
		case "throttled":
			return &events.Verdict{ID: "t", Mode: "enforce", Action: "throttle", Reason: events.CallRate, RetryAfterS: 7, HTTPStatus: 429}
		case "warned":
			return &events.Verdict{ID: "w", Mode: "enforce", Action: "warn", Reason: events.MaxTotalCalls, Limit: number(10), Observed: number(8), Unit: events.UnitCalls}
		case "told":
			return &events.Verdict{ID: "l", Mode: "enforce", Action: "allow", Reason: "allowed", AgentMessage: "wrap up", Remaining: left}
		case "slow":
			time.Sleep(time.Minute) // in the bubble
		}
		return nil
	}
	inBubble(t, guard.Options{}, func(w *guardtest.Weir) { w.Answer(answer) }, func(r *rig) {
		weir := r.weir
		f := func(to string, action events.Action, source guard.Source) guard.Decision {
			t.Helper()
			d := r.Ask(r.Context(), guard.Call{Flow: "f", From: "a", To: to})
			if d.Action != action || d.Source != source {
				t.Errorf("%s: %s by %s, want %s by %s", to, d.Action, d.Source, action, source)
			}
			return d
		}
		f("free", events.Allow, guard.FromWeir)
		if ask := weir.Asks()[0]; !ask.Ask || ask.Kind != events.AgentCall || ask.CorrelationID != "f" || ask.Source != "test" || ask.ID == "" {
			t.Errorf("asked %+v", ask)
		}
		d := f("denied", events.Deny, guard.FromWeir)
		if s, ok := errors.AsType[*guard.Stop](d.Err()); !ok || s.Observed != 11 || s.Limit != 10 || s.VerdictID != "d" || s.Message != "no" || s.Flow != "f" {
			t.Errorf("%+v", s)
		}
		if d := f("told", events.Allow, guard.FromWeir); d.Note != "wrap up" || !reflect.DeepEqual(d.Remaining, left) {
			t.Errorf("%+v", d)
		}
		if d := f("denied", events.Deny, guard.FromWeir); d.Note != "" || !reflect.DeepEqual(d.Remaining, left) {
			t.Errorf("%+v", d)
		}
		if d := f("throttled", events.Throttle, guard.FromWeir); d.RetryAfter != 7*time.Second {
			t.Errorf("%+v", d)
		}
		if d := f("warned", events.Warn, guard.FromWeir); d.Stopped() || d.Observed != 8 {
			t.Errorf("%+v", d)
		}
		f("slow", events.Allow, guard.StaleOpen)
		weir.SetFull(true)
		f("free", events.Allow, guard.StaleOpen)
		weir.Give(deny("f"))
		synctest.Wait()
		f("free", events.Deny, guard.FromTable)
		weir.SetFull(false)
		f("free", events.Allow, guard.FromWeir) // weir knows better
		weir.Set(guardtest.Mute)
		f("free", events.Deny, guard.FromTable)
		time.Sleep(time.Minute) // the slow answer ends
		if n := r.Counts().AskFailures.Load(); n != 4 {
			t.Errorf("%d asks failed", n)
		}
	})
}

func TestAGuardWithKeys(t *testing.T) {
	keys := sign.Keys{{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}}
	call := guard.Call{Flow: "f", From: "planner", To: "coder"}
	var log strings.Builder
	o := guard.Options{Keys: keys, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, func(w *guardtest.Weir) { w.SetKeys(keys) }, func(r *rig) {
		r.weir.Give(deny("f"))
		synctest.Wait()
		r.decided(call, events.Deny, guard.FromTable, false)
		r.weir.Give(events.Verdict{CorrelationID: "f", Action: "allow", Reason: events.MaxTotalCalls})
		synctest.Wait()
		r.decided(call, events.Allow, guard.FromTable, false)
		r.weir.Repeat(0)
		r.weir.Repeat(0)
		r.weir.SetKeys(nil)
		r.weir.Give(deny("f"))
		r.weir.SetKeys(sign.Keys{{ID: "k2", Secret: keys[0].Secret}})
		r.weir.Give(deny("f"))
		synctest.Wait()
		r.decided(call, events.Allow, guard.FromTable, false)
		c := r.Counts()
		if c.Unsigned.Load() != 1 || c.Forged.Load() != 1 || c.Replayed.Load() != 2 || c.Orders.Load() != 2 {
			t.Errorf("%d unsigned, %d forged, %d replayed, %d orders", c.Unsigned.Load(), c.Forged.Load(), c.Replayed.Load(), c.Orders.Load())
		}
		if n := strings.Count(log.String(), "is ignored"); n != 3 {
			t.Errorf("%d lines say so, want one of each kind: %s", n, log.String())
		}
		// What expired and is not remembered any more is no replay, and refuses nothing.
		time.Sleep(2*time.Hour + time.Minute)
		r.weir.Repeat(0)
		synctest.Wait()
		r.decided(call, events.Allow, guard.FromTable, false)
		if c.Replayed.Load() != 2 {
			t.Errorf("%d replayed", c.Replayed.Load())
		}
	})
}

func TestDial(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://h", "http://", "http://a b"} {
		if _, err := guard.Dial(bad); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	inBubble(t, guard.Options{Quiet: true}, up, func(r *rig) {
		r.weir.Give(deny("f"))
		synctest.Wait()
		for _, c := range []guard.Call{{Flow: "f", From: "a", To: "b"}, {Flow: "g", From: "a", To: "b"}} {
			if n := testing.AllocsPerRun(100, func() { r.Check(r.Context(), c) }); n > 0 {
				t.Errorf("%+v: %v allocations", c, n)
			}
		}
	})
}

// TestWhenWeirIsAway is the table of what a guard decides in each state of weir: by
// Check and by Ask, about a call that an order refuses and about another one.
func TestWhenWeirIsAway(t *testing.T) {
	type cell struct {
		action events.Action
		source guard.Source
		stale  bool
	}
	stopped := guard.Call{Flow: "f", From: "a", To: "b"}
	free := guard.Call{Flow: "g", From: "a", To: "b"}
	answer := func(ev *events.Event) *events.Verdict {
		if ev.CorrelationID == "f" {
			return &events.Verdict{ID: "d", Mode: "enforce", Action: "deny", Reason: events.MaxTotalCalls, HTTPStatus: 429}
		}
		return nil
	}
	const away = 6 * time.Second // longer than it takes to notice
	f := func(name string, closed bool, change func(*guardtest.Weir), wait time.Duration, want [4]cell) {
		t.Helper()
		inBubble(t, guard.Options{FailClosed: closed}, func(w *guardtest.Weir) { w.Answer(answer) }, func(r *rig) {
			r.weir.Give(deny("f"))
			synctest.Wait()
			change(r.weir)
			time.Sleep(wait)
			synctest.Wait()
			for i, d := range [...]guard.Decision{r.Check(r.Context(), stopped), r.Check(r.Context(), free), r.Ask(r.Context(), stopped), r.Ask(r.Context(), free)} {
				if got := (cell{d.Action, d.Source, d.Stale}); got != want[i] {
					t.Errorf("%s, closed %v, %s: %s by %s, stale %v; want %s by %s, stale %v", name, closed, [...]string{"Check of a stopped call", "Check of another", "Ask of a stopped call", "Ask of another"}[i],
						got.action, got.source, got.stale, want[i].action, want[i].source, want[i].stale)
				}
			}
			time.Sleep(2 * time.Minute) // what is slow ends
		})
	}
	fresh := func(action events.Action) cell { return cell{action, guard.FromTable, false} }
	weirs := func(action events.Action) cell { return cell{action, guard.FromWeir, false} }
	old := cell{events.Deny, guard.FromTable, true}
	open, closed := cell{events.Allow, guard.StaleOpen, true}, cell{events.Deny, guard.StaleClosed, true}
	set := func(s guardtest.State) func(*guardtest.Weir) { return func(w *guardtest.Weir) { w.Set(s) } }
	up := [4]cell{fresh(events.Deny), fresh(events.Allow), weirs(events.Deny), weirs(events.Allow)}
	f("up", false, func(*guardtest.Weir) {}, 0, up)
	f("up", true, func(*guardtest.Weir) {}, 0, up)
	f("killed", false, set(guardtest.Away), away, [4]cell{old, open, old, open})
	f("killed", true, set(guardtest.Away), away, [4]cell{old, closed, old, closed})
	f("paused", false, set(guardtest.Mute), away, [4]cell{old, open, old, open})
	f("paused", true, set(guardtest.Mute), away, [4]cell{old, closed, old, closed})
	slow := func(w *guardtest.Weir) {
		w.Answer(func(*events.Event) *events.Verdict { time.Sleep(time.Minute); return nil }) // in the bubble
	}
	f("slow", false, slow, away, [4]cell{fresh(events.Deny), fresh(events.Allow), fresh(events.Deny), open})
	f("slow", true, slow, away, [4]cell{fresh(events.Deny), fresh(events.Allow), fresh(events.Deny), closed})
	full := func(w *guardtest.Weir) { w.SetFull(true) }
	f("disk full", false, full, away, [4]cell{fresh(events.Deny), fresh(events.Allow), fresh(events.Deny), open})
	f("disk full", true, full, away, [4]cell{fresh(events.Deny), fresh(events.Allow), fresh(events.Deny), closed})
	f("failing", false, set(guardtest.Erred), away, [4]cell{old, open, old, open})
	f("failing", true, set(guardtest.Erred), away, [4]cell{old, closed, old, closed})
	behind := [4]cell{old, open, weirs(events.Deny), weirs(events.Allow)}
	f("behind", false, set(guardtest.Behind), away, behind)
	behind[1] = closed
	f("behind", true, set(guardtest.Behind), away, behind)
	restarted := func(w *guardtest.Weir) {
		w.Set(guardtest.Away)
		time.Sleep(time.Minute) // in the bubble
		w.Set(guardtest.Up)
	}
	f("restarted", false, restarted, time.Minute, up)
	f("restarted", true, restarted, time.Minute, up)
}

// TestUnseen checks a flow of which weir has no event: the guard logs one such flow, and only when
// telemetry had time to report it.
func TestUnseen(t *testing.T) {
	var out strings.Builder
	o := guard.Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	inBubble(t, o, up, func(r *rig) {
		for i := range 10 {
			r.Ask(r.Context(), guard.Call{Flow: "asked", From: "a", To: "b"})
			for _, flow := range []string{"asked", "once", "few", "unknown/1", "unknown/2"} {
				if i == 0 || flow != "once" && flow != "few" {
					r.Check(r.Context(), guard.Call{Flow: flow, From: "a", To: "b"})
				}
			}
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if text := out.String(); strings.Count(text, "has never seen it") != 1 || !strings.Contains(text, "flow=unknown/") {
			r.Errorf("logged %q", text)
		}
	})
}
