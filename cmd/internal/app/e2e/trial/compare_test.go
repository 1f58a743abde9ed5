package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCompare plants each kind of error and holds that it is seen, and nothing else.
func TestCompare(t *testing.T) {
	verdict := func(partition int32, trigger int64, id string) said {
		return said{partition, trigger, id, "flow:" + id, "{" + id + "}"}
	}
	log := &oracle{
		verdicts:    []said{verdict(0, 3, "a"), verdict(0, 5, "b"), verdict(0, 5, "c"), verdict(1, 2, "d"), verdict(1, 90, "late")},
		deadLetters: []said{{partition: 0, trigger: 4, value: "x"}, {partition: 1, trigger: 91, value: "late"}},
	}
	folded := map[int32]int64{0: 10, 1: 80}
	f := func(what string, change func(p *published), want difference) {
		t.Helper()
		p := &published{verdicts: slices.Clone(log.verdicts[:4]), deadLetters: slices.Clone(log.deadLetters[:1])}
		change(p)
		got := compare(log, p, folded)
		if got.any() != want.any() || got.any() != (len(got.first) > 0) {
			t.Errorf("%s: any is %v, examples: %q", what, got.any(), got.first)
		}
		if got.first = nil; !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v, want %+v", what, *got, want)
		}
	}
	f("nothing", func(*published) {}, difference{})
	f("published after the last commit", func(p *published) { p.verdicts = append(p.verdicts, log.verdicts[4]) }, difference{})
	f("one missing", func(p *published) { p.verdicts = p.verdicts[1:] }, difference{missing: 1})
	f("one twice", func(p *published) { p.verdicts = slices.Insert(p.verdicts, 1, p.verdicts[0]) }, difference{doubled: 1})
	f("one twice, by a former owner", func(p *published) { p.verdicts = append(p.verdicts, p.verdicts[0]) }, difference{doubled: 1, backwards: 1})
	f("one that nobody should say", func(p *published) { p.verdicts = append(p.verdicts, verdict(1, 7, "z")) }, difference{extra: 1})
	f("other bytes", func(p *published) { p.verdicts[0].value = "{}" }, difference{changed: 1})
	f("another partition", func(p *published) { p.verdicts[3].partition = 2 }, difference{misplaced: 1})
	f("another key", func(p *published) { p.verdicts[3].key = "flow:a" }, difference{misplaced: 1})
	f("out of order", func(p *published) { slices.Reverse(p.verdicts[:2]) }, difference{backwards: 1})
	f("a letter missing", func(p *published) { p.deadLetters = nil }, difference{deadLettersMissing: 1})
	f("a letter twice", func(p *published) { p.deadLetters = append(p.deadLetters, p.deadLetters[0]) }, difference{deadLettersTwice: 1})
	f("a letter with another record", func(p *published) { p.deadLetters[0].value = "y" }, difference{deadLettersExtra: 1})
	f("a record of a former owner", func(p *published) { p.former = []string{"?"} }, difference{former: 1})
	f("a record that nobody can read", func(p *published) { p.strange = []string{"?"} }, difference{strange: 1})
}

// TestLateOwner holds that a record behind the mark of a later owner is seen, and that
// neither further epochs nor marks that shut an owner out are taken for one.
func TestLateOwner(t *testing.T) {
	f := func(want int, records ...identity) {
		t.Helper()
		l, late := owners{former: map[identity]bool{}}, 0
		for _, o := range records {
			if l.late(&kgo.Record{ProducerID: o.id, ProducerEpoch: o.epoch}) {
				late++
			}
		}
		if late != want {
			t.Errorf("%v: %d records are late, want %d", records, late, want)
		}
	}
	a, b, next, c, out := identity{4, 0}, identity{4, 1}, identity{4, 2}, identity{9, 0}, identity{4, lastEpoch}
	f(0, a, a, b, b, next)
	f(0, a, b, out, c, c)
	f(1, a, b, a, b)
	f(2, a, b, out, c, b, a, c)
}

func TestSameAs(t *testing.T) {
	verdicts := []said{{value: "{b}"}, {value: "{a}"}, {value: "{b}"}}
	f := func(lines string, onlyFold, onlyReplay int) {
		t.Helper()
		if a, b := sameAs(verdicts, lines); a != onlyFold || b != onlyReplay {
			t.Errorf("%q: %d and %d, want %d and %d", lines, a, b, onlyFold, onlyReplay)
		}
	}
	f("{a}\n{b}\n{b}\n{\"summary\":{}}\n", 0, 0)
	f("{a}\n{b}\n", 1, 0)
	f("{a}\n{b}\n{b}\n{c}\n{a}\n", 0, 2)
	f("", 3, 0)
}

// TestSchedule holds that a schedule is the seed's, and that members leave only after
// one has joined.
func TestSchedule(t *testing.T) {
	n := faults{hardExits: 30, joins: 10, brokerDowns: 2, loseStates: 1, freezes: 1}
	for seed := range uint64(50) {
		plan := n.schedule(seed, time.Second)
		if !slices.Equal(plan, n.schedule(seed, time.Second)) {
			t.Fatalf("seed %d: two schedules differ", seed)
		}
		counts, members := map[fault]int{}, 2
		for _, m := range plan {
			counts[m.fault]++
			switch m.fault {
			case join:
				members++
			case leave:
				members--
			}
			if members < 2 || members > 3 {
				t.Fatalf("seed %d: %d members", seed, members)
			}
		}
		want := map[fault]int{hardExit: 30, join: 10, leave: 10, brokerDown: 2, loseState: 1, freeze: 1}
		for f, n := range want {
			if counts[f] != n {
				t.Errorf("seed %d: %d times %s, want %d", seed, counts[f], f, n)
			}
		}
	}
}
