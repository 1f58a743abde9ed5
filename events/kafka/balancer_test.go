package kafka

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

func TestShareOut(t *testing.T) {
	f := func(partitions int, holds map[string][]Hold, want map[string][]int) {
		t.Helper()
		var members []member
		for id, h := range holds {
			members = append(members, member{id, h})
		}
		ids := make([]int, partitions)
		for i := range ids {
			ids[i] = partitions - 1 - i
		}
		if got := shareOut(members, ids); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, want %v", holds, got, want)
		}
	}
	f(3, map[string][]Hold{}, map[string][]int{})
	f(0, map[string][]Hold{"a": nil}, map[string][]int{"a": {}})
	f(3, map[string][]Hold{"a": nil}, map[string][]int{"a": {0, 1, 2}})
	f(4, map[string][]Hold{"a": nil, "b": nil}, map[string][]int{"a": {0, 2}, "b": {1, 3}})
	f(1, map[string][]Hold{"a": nil, "b": nil}, map[string][]int{"a": {0}, "b": {}})
	// State stays where it is, as far as the shares allow.
	f(4, map[string][]Hold{"a": {{2, 5}, {3, 5}}, "b": nil}, map[string][]int{"a": {2, 3}, "b": {0, 1}})
	f(4, map[string][]Hold{"a": {{0, 5}, {1, 5}, {2, 5}, {3, 5}}, "b": nil}, map[string][]int{"a": {0, 1}, "b": {2, 3}})
	// The furthest counts, and between equals the name.
	f(2, map[string][]Hold{"a": {{0, 5}, {1, 9}}, "b": {{0, 6}, {1, 8}}}, map[string][]int{"a": {1}, "b": {0}})
	f(2, map[string][]Hold{"a": {{0, 5}, {1, 5}}, "b": {{0, 5}, {1, 5}}}, map[string][]int{"a": {0}, "b": {1}})
	// One who comes without state gets a share, though all others could keep theirs.
	f(12, map[string][]Hold{"a": {{0, 1}, {1, 1}, {2, 1}}, "b": {{3, 1}, {4, 1}, {5, 1}}, "c": {{6, 1}, {7, 1}, {8, 1}}, "d": {{9, 1}, {10, 1}, {11, 1}}, "e": nil},
		map[string][]int{"a": {0, 1, 2}, "b": {3, 4, 5}, "c": {6, 7}, "d": {9, 10}, "e": {8, 11}})
	// A second choice does not take the room of a first.
	f(2, map[string][]Hold{"a": {{0, 9}}, "b": {{0, 8}, {1, 3}}}, map[string][]int{"a": {0}, "b": {1}})
	// Reports about partitions that do not exist, or repeated ones, are ignored.
	f(2, map[string][]Hold{"a": {{7, 9}, {1, 4}, {1, 9}}, "b": {{-1, 3}}}, map[string][]int{"a": {1}, "b": {0}})
}

// TestShareOutLaws holds for any group: every partition has one owner, shares differ by
// one at most, the order of the members is without effect, and sharing out again what
// was shared out moves nothing.
func TestShareOutLaws(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		n, partitions := 1+random.IntN(6), random.IntN(20)
		ids := random.Perm(partitions)
		members := make([]member, n)
		for m := range members {
			members[m].id = fmt.Sprint("m", random.IntN(1000), "-", m)
			for _, p := range ids {
				if random.IntN(3) == 0 {
					members[m].holds = append(members[m].holds, Hold{p, int64(random.IntN(4))})
				}
			}
		}
		shares := shareOut(members, ids)
		var all []int
		for _, m := range members {
			share := shares[m.id]
			all = append(all, share...)
			if least := partitions / n; len(share) < least || len(share) > least+min(1, partitions%n) {
				t.Fatalf("shares %v of %d partitions", shares, partitions)
			}
		}
		slices.Sort(all)
		slices.Sort(ids)
		if !slices.Equal(all, ids) || len(shares) != n {
			t.Fatalf("shares %v of %v", shares, ids)
		}
		random.Shuffle(n, func(i, j int) { members[i], members[j] = members[j], members[i] })
		random.Shuffle(partitions, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		if again := shareOut(members, ids); !reflect.DeepEqual(shares, again) {
			t.Fatalf("shares %v, and in another order %v", shares, again)
		}
		for m := range members {
			for _, p := range shares[members[m].id] {
				members[m].holds = append(members[m].holds, Hold{p, 100})
			}
		}
		if again := shareOut(members, ids); !reflect.DeepEqual(shares, again) {
			t.Fatalf("shares %v, and with that state %v", shares, again)
		}
	}
}

// TestShareOutMovesLittle counts what a coming and a leaving move.
func TestShareOutMovesLittle(t *testing.T) {
	const partitions = 12
	ids := make([]int, partitions)
	for i := range ids {
		ids[i] = i
	}
	owned := map[string][]int{}
	again := func(names ...string) (moved int) {
		var members []member
		for _, name := range names {
			m := member{id: name}
			for _, p := range owned[name] {
				m.holds = append(m.holds, Hold{p, 10})
			}
			members = append(members, m)
		}
		shares := shareOut(members, ids)
		for name, share := range shares {
			for _, p := range share {
				if !slices.Contains(owned[name], p) {
					moved++
				}
			}
		}
		owned = maps.Clone(shares)
		return moved
	}
	for _, step := range []struct {
		names []string
		least int // that must move
	}{{[]string{"a"}, 12}, {[]string{"a", "b"}, 6}, {[]string{"a", "b", "c"}, 4}, {[]string{"a", "c"}, 4}, {[]string{"a", "c", "d", "e"}, 6}, {[]string{"e"}, 9}} {
		if moved := again(step.names...); moved != step.least {
			t.Errorf("%v: %d partitions moved, want %d", step.names, moved, step.least)
		}
	}
}

func TestBalancer(t *testing.T) {
	b := &balancer{topic: "events", mine: func() profile { return profile{"http://me", []Hold{{1, 7}}} }}
	data, err := b.UserData()
	if err != nil {
		t.Fatal(err)
	}
	got := b.AssignGroups([]kafkago.GroupMember{
		{ID: "a", Topics: []string{"events"}, UserData: []byte("what is this")},
		{ID: "b", Topics: []string{"events"}, UserData: data},
		{ID: "c", Topics: []string{"other"}},
	}, []kafkago.Partition{{Topic: "events", ID: 1}, {Topic: "events", ID: 0}, {Topic: "other", ID: 5}})
	want := kafkago.GroupMemberAssignments{"a": {"events": {0}}, "b": {"events": {1}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestProfile(t *testing.T) {
	f := func(p profile, good bool) {
		t.Helper()
		b, err := p.append()
		if (err == nil) != good {
			t.Errorf("%v: %v", p, err)
		}
		if err != nil {
			return
		}
		got, err := parseProfile(b)
		slices.SortFunc(p.holds, func(a, b Hold) int { return a.Partition - b.Partition })
		if err != nil || got.address != p.address || !slices.Equal(got.holds, p.holds) {
			t.Errorf("%v became %v, %v", p, got, err)
		}
		for cut := range b {
			if _, err := parseProfile(b[:cut]); err == nil {
				t.Errorf("%d of %d bytes are a profile", cut, len(b))
			}
		}
	}
	f(profile{}, true)
	f(profile{"http://10.0.0.1:8080", []Hold{{5, 1 << 50}, {0, 0}, {4, 77}, {1000, 3}}}, true)
	f(profile{string(make([]byte, maxAddress+1)), nil}, false)
	f(profile{"", []Hold{{1, 5}, {1, 6}}}, false)
	f(profile{"", []Hold{{-1, 5}}}, false)
	f(profile{"", []Hold{{1, -5}}}, false)
}

// FuzzProfile holds that no bytes break it, and that what is read is written alike.
func FuzzProfile(f *testing.F) {
	b, _ := profile{"http://10.0.0.1:8080", []Hold{{0, 5}, {4, 1 << 40}}}.append()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProfile(b)
		if err != nil {
			return
		}
		again, err := p.append()
		if err != nil {
			t.Fatal(err)
		}
		q, err := parseProfile(again)
		if err != nil || !reflect.DeepEqual(p, q) || len(again) > len(b) && bytes.Equal(b, again) {
			t.Fatalf("%v became %v, %v", p, q, err)
		}
	})
}
