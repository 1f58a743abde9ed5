package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// answersLog is what the log of events holds of the checks, and whether the verdicts are those of a fold
// of it.
type answersLog struct {
	seed  maphash.Seed
	flows map[string]uint32 // their numbers
	names []string
	asks  []loggedAsk

	records     int
	differences int // verdicts that are missing, doubled, or others than those of a fold
	verdicts    int
	first       []string
}

// loggedAsk is one check: 10,000,000 of them fit into 160 MB.
type loggedAsk struct {
	id   uint64
	flow uint32
}

func newAnswersLog() *answersLog {
	return &answersLog{seed: maphash.MakeSeed(), flows: make(map[string]uint32)}
}

// add takes a record of the log.
func (l *answersLog) add(ev *events.Event) {
	l.records++
	if !ev.Ask {
		return
	}
	n, ok := l.flows[ev.CorrelationID]
	if !ok {
		n = uint32(len(l.names))
		name := string([]byte(ev.CorrelationID))
		l.flows[name], l.names = n, append(l.names, name)
	}
	l.asks = append(l.asks, loggedAsk{maphash.String(l.seed, ev.ID), n})
}

// counted returns how many different checks each flow has, and how many are there again: a guard that
// had no answer has sent them again, and they count once.
func (l *answersLog) counted() (counts map[string]int, again int) {
	slices.SortFunc(l.asks, func(a, b loggedAsk) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	each := make([]int, len(l.names))
	for i, a := range l.asks {
		if i > 0 && l.asks[i-1].id == a.id {
			again++
			continue
		}
		each[a.flow]++
	}
	counts = make(map[string]int, len(each))
	for n, name := range l.names {
		counts[name] = each[n]
	}
	return counts, again
}

// end stops the weirs in order and reads their log.
func (w *weirs) end(ctx context.Context, dir string) (*answersLog, error) {
	l := newAnswersLog()
	for _, m := range w.members {
		l.first = append(l.first, m.failures...)
	}
	if w.group {
		return l, w.endGroup(ctx, l)
	}
	m := w.members[0]
	if _, err := m.stop(); err != nil {
		return nil, err
	}
	store, err := state.Open(m.dir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return l, l.fold(ctx, store)
}

// fold compares the verdict log with an undisturbed fold of the journal.
func (l *answersLog) fold(ctx context.Context, store *state.Store) error {
	again, err := pump.NewReplay(ctx, pump.Options{Limits: limitfile.Default(),
		Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
	if err != nil {
		return err
	}
	want := make(map[string]bool)
	err = eachEntry(store.Journal(0), func(e *state.Entry) error {
		var ev events.Event
		if err := events.Decode(e.Value, &ev); err != nil {
			return fmt.Errorf("journal %d: %w", e.Offset, err)
		}
		ev.Appended = e.Appended
		l.add(&ev)
		for _, v := range again.Fold(&ev, e.Offset) {
			want[string(v.AppendJSON(nil))] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eachEntry(store.Verdicts(0), func(e *state.Entry) error {
		l.verdicts++
		if !want[string(e.Value)] {
			l.note("verdict %d is doubled, or not in the fold: %.200s", e.Offset, e.Value)
		}
		delete(want, string(e.Value))
		return nil
	})
	for v := range want {
		l.note("a verdict is missing: %.200s", v)
	}
	return err
}

func (l *answersLog) note(format string, args ...any) {
	if l.differences++; len(l.first) < examples {
		l.first = append(l.first, fmt.Sprintf(format, args...))
	}
}

// eachEntry calls fn with each entry of a log.
func eachEntry(log *state.Log, fn func(*state.Entry) error) error {
	var entries []state.Entry
	for from := int64(0); from < log.End(); {
		var err error
		if entries, err = log.Read(from, 4096, entries[:0]); err != nil {
			return err
		}
		for i := range entries {
			if err := fn(&entries[i]); err != nil {
				return err
			}
		}
		from += int64(len(entries))
	}
	return nil
}

// endGroup does the same for a group, by the comparison of storms.
func (w *weirs) endGroup(ctx context.Context, l *answersLog) error {
	s := w.storm
	s.members, w.members = w.members, nil
	r := &result{storm: s}
	if err := s.settle(ctx, r); err != nil {
		return err
	}
	if err := s.judge(ctx, r); err != nil {
		return err
	}
	l.verdicts = len(r.published.verdicts)
	l.first = append(append(append(l.first, s.problems...), r.difference.first...), r.agentDifference.first...)
	if r.difference.any() || r.agentDifference.any() || r.onlyFold+r.onlyReplay > 0 {
		l.note("the verdicts differ from a fold (%+v, %+v) or from weir replay (%d, %d)", r.difference, r.agentDifference, r.onlyFold, r.onlyReplay)
	}
	var failed error
	_, err := s.server.readAll(ctx, s.topics.events, func(r *kgo.Record) {
		var ev events.Event
		if failed = events.Decode(r.Value, &ev); failed == nil {
			l.add(&ev)
		}
	})
	if err != nil {
		return err
	}
	return failed
}
