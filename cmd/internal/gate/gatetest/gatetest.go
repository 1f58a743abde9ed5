// Package gatetest makes events of a sender that tries to change the answers to others, for tests.
package gatetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"weir/cmd/internal/gate"
	"weir/events"
)

// Adversary makes events with any value in any field, as an intake lets them in.
type Adversary struct {
	Rand *rand.Rand
	// Names are those of honest agents, tools, turns, flows and so on, which it knows.
	Names []string
	// Flows are those that it may name as the flow of an event, or as its tree.
	Flows []string
	// IDs are ids of honest checks and orders, past or to come, and Source is whose they are. It
	// sends some of them again as its own.
	IDs    []string
	Source string
	// Plain events change nothing but what the law is about: see Event.
	Plain func(*events.Event) bool

	made int
}

var trust, _ = gate.ParseTrust(gate.DefaultTrust)

// kinds are those that a sender may send.
var kinds = slices.DeleteFunc(events.Kinds(), func(k events.Kind) bool {
	return gate.Producer.Admit(&events.Event{Kind: k}) != nil
})

// Event returns an event that POST /v1/events of a sender lets in, near a time. Each field has a
// value in some events; one that Plain refuses is made anew.
func (a *Adversary) Event(at events.Stamp) events.Event {
	for {
		a.made++
		var ev events.Event
		a.fill(reflect.ValueOf(&ev).Elem())
		ev.ID, ev.Source, ev.Kind, ev.Observed, ev.Appended = fmt.Sprint("x", a.made), a.name(), kinds[a.Rand.IntN(len(kinds))], 0, 0
		ev.Time = at.Add(a.one(0, 0, 0, -time.Second, -time.Hour, -240*time.Hour, 58*time.Second, time.Hour, 240*time.Hour))
		ev.CorrelationID = a.Flows[a.Rand.IntN(len(a.Flows))]
		for _, name := range []*string{&ev.ParentCorrelationID, &ev.RootCorrelationID} {
			if *name != "" {
				*name = a.Flows[a.Rand.IntN(len(a.Flows))]
			}
		}
		if len(a.IDs) > 0 && a.Rand.IntN(2) == 0 {
			ev.ID, ev.Source = a.IDs[a.Rand.IntN(len(a.IDs))], a.Source
		}
		only(&ev, ev.Kind)
		// As the intake gets it: by its text.
		var in events.Event
		if events.Decode(ev.AppendJSON(nil), &in) != nil || gate.Producer.Admit(&in) != nil {
			continue // no event, an order, or a kind of weir's own
		}
		in.Appended = at
		trust.Weigh(gate.Producer, &in)
		if a.Plain == nil || a.Plain(&in) {
			return in
		}
	}
}

// only leaves the parts that belong to the kind.
func only(ev *events.Event, kind events.Kind) {
	parts := map[events.Kind]any{events.AgentStatus: &events.AgentState{Status: "active"}, events.NoteAdded: &events.Note{Summary: "s"}, events.RescueRequest: &events.Rescue{Reason: "r"},
		events.VerdictAck: &events.Ack{VerdictID: "v"}, events.ReviewResult: &events.Review{Decision: "resume"}}
	v := reflect.ValueOf(ev).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Pointer {
			continue
		}
		f.SetZero()
		if part, ok := parts[kind]; ok && f.Type() == reflect.TypeOf(part) {
			f.Set(reflect.ValueOf(part))
		}
	}
	ev.Limits = nil
}

func (a *Adversary) name() string { return a.Names[a.Rand.IntN(len(a.Names))] }

func (a *Adversary) one(of ...time.Duration) time.Duration { return of[a.Rand.IntN(len(of))] }

var (
	hashType        = reflect.TypeFor[events.Hash]()
	fingerprintType = reflect.TypeFor[events.Fingerprint]()
)

// fill sets about a third of the fields, those of structs within, too.
func (a *Adversary) fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() || f.Kind() != reflect.Struct && a.Rand.IntN(3) > 0 {
			continue
		}
		switch {
		case f.Type() == hashType:
			f.Set(reflect.ValueOf(events.Hash{Algorithm: events.XXH64, Value: uint64(a.Rand.IntN(4)) + 1}))
		case f.Type() == fingerprintType:
			f.Set(reflect.ValueOf(events.Fingerprint{Algorithm: events.Simhash64, Value: uint64(a.Rand.IntN(4)) + 1}))
		case f.Kind() == reflect.Struct:
			a.fill(f)
		case f.Kind() == reflect.String:
			f.SetString(a.name())
		case f.Kind() == reflect.Bool:
			f.SetBool(a.Rand.IntN(2) == 0)
		case f.CanInt():
			f.SetInt(int64(a.Rand.IntN(12)))
		case f.CanUint():
			f.SetUint(uint64(a.Rand.IntN(10)))
		case f.CanFloat():
			f.SetFloat(float64(a.Rand.IntN(100)))
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{a.name(), a.name()}))
		}
	}
}
