package ledger

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"weir/analyzer/record"
	"weir/events"
)

// TestSumsDoNotHangOnTheOrder reports the same spending of more children than are remembered, in
// several orders: the sums are the same, and exact.
func TestSumsDoNotHangOnTheOrder(t *testing.T) {
	type told struct {
		flow uint64
		n    Amount
		at   events.Stamp
	}
	var all []told
	var want Amount
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		x := told{uint64(1 + i%(3*MaxChildren)), Amount{1, r.Int64N(1000), r.Int64N(1 << 40)}, events.Stamp(1000 + i)}
		all = append(all, x)
		for k := range want {
			want[k] += x.n[k]
		}
	}
	for range 20 {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var l Ledger
		l.Begin(1)
		for _, x := range all {
			l.Spend(l.Hear(x.flow, 0, x.at), x.n)
		}
		if l.Spent != want || l.Living() != MaxChildren {
			t.Fatalf("%v, want %v; %d children", l.Spent, want, l.Living())
		}
	}
}

func TestSharesComeBack(t *testing.T) {
	var l Ledger
	l.Begin(1)
	f := func(but uint64, want int64) {
		t.Helper()
		if got := l.Reserved(Calls, 10, but); got != want {
			t.Errorf("%d are set aside beside %d, want %d", got, but, want)
		}
	}
	f(0, 0)
	l.Spend(l.Hear(1, 0, 100), Amount{3})
	l.Spend(l.Hear(2, 0, 200), Amount{30})
	l.Spend(l.Hear(3, 0, 300), Amount{1})
	f(0, 7+0+9)
	f(3, 7)
	l.End(1)
	f(0, 9)
	l.Forget(300) // silent since then
	f(0, 0)
	if l.Spent[Calls] != 34 || l.Living() != 0 || l.Freed(10) != 0 {
		t.Errorf("%v, %d children", l.Spent, l.Living())
	}
}

func TestDepth(t *testing.T) {
	var l Ledger
	l.Begin(1)
	f := func(flow, parent uint64, want int64) {
		t.Helper()
		if got := l.Depth(flow, parent); got != want {
			t.Errorf("%d below %d is %d deep, want %d", flow, parent, got, want)
		}
	}
	f(10, 0, 1)
	f(12, 11, 1) // without a reported parent
	l.Hear(13, 12, 5)
	l.Hear(12, 11, 5)
	f(13, 0, 2)
	l.Hear(11, 0, 5) // its parent reports late
	f(13, 0, 3)
	f(14, 13, 4)
	l.Hear(11, 13, 6) // a circle
	if got := l.Depth(14, 13); got > l.Living()+1 {
		t.Errorf("a circle is %d deep", got)
	}
}

func TestRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var l, got Ledger
		l.Begin(events.Stamp(1 + r.IntN(1<<40)))
		l.Last = l.Start + events.Stamp(r.IntN(1<<30))
		for range r.IntN(5) {
			c := l.Hear(r.Uint64(), r.Uint64(), l.Start)
			if r.IntN(2) == 0 {
				c.NotifiedAt = events.Stamp(1 + r.IntN(1<<41))
			}
			l.Spend(c, Amount{r.Int64N(9), r.Int64N(1 << 50), r.Int64N(1 << 50)})
		}
		if len(l.children) > 2 {
			l.End(l.children[1].flow) // it is remembered to have started
		}
		clock := l.Last + events.Stamp(r.IntN(3))
		bytes := l.AppendStarted(l.AppendBinary(nil, clock))
		d := record.NewReader(append(bytes, "rest"...))
		got.Read(&d, clock)
		if got.ReadStarted(&d); d.Text(len("rest")) != "rest" || d.End("ledger") != nil || !reflect.DeepEqual(append([]Child{}, got.children...), append([]Child{}, l.children...)) || got.Started != l.Started || !reflect.DeepEqual(append([]uint32{}, got.gone...), append([]uint32{}, l.gone...)) || got.Spent != l.Spent || got.Start != l.Start || got.Last != l.Last {
			t.Fatalf("read %+v, %v; wrote %+v", got, d.Bad(), l)
		}
		for cut := range bytes {
			d := record.NewReader(bytes[:cut])
			got.Read(&d, clock)
			if got.ReadStarted(&d); !d.Bad() {
				t.Fatalf("a record of %d bytes reads when %d are left", len(bytes), cut)
			}
		}
	}
}
