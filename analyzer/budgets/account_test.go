package budgets

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"weir/analyzer/record"
	"weir/events"
)

const noon events.Stamp = 1_795_780_800_000 // 2026-11-27T12:00:00Z

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skip("this machine has no time zones: ", err)
	}
	return z
}

// TestWindowsOfTheCalendar holds windows to their edges, also where clocks change.
func TestWindowsOfTheCalendar(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		zone       string
		period     Period
		at         string
		start, end string
	}{
		{"UTC", Hour, "2026-11-27T12:34:56.789Z", "2026-11-27T12:00:00Z", "2026-11-27T13:00:00Z"},
		{"UTC", Day, "2026-11-27T00:00:00Z", "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"},
		{"Asia/Kolkata", Hour, "2026-11-27T12:34:56Z", "2026-11-27T12:30:00Z", "2026-11-27T13:30:00Z"},
		{"America/New_York", Day, "2026-11-27T04:59:59Z", "2026-11-26T05:00:00Z", "2026-11-27T05:00:00Z"},
		{"Europe/Berlin", Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		{"Europe/Berlin", Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{"Europe/Berlin", Hour, "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"UTC", Week, "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"UTC", Month, "2026-02-28T10:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"Europe/Berlin", Month, "2026-12-31T23:30:00Z", "2026-12-31T23:00:00Z", "2027-01-31T23:00:00Z"},
		{"Africa/Cairo", Day, "2026-04-24T00:30:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"}, // no midnight
	} {
		at, _ := events.ParseStamp(x.at)
		start, end := Window{Period: x.period, Zone: zone(t, x.zone)}.Around(at)
		if got := [2]string{start.Time().Format(time.RFC3339), end.Time().Format(time.RFC3339)}; got != [2]string{x.start, x.end} {
			t.Errorf("%s %s around %s: %v; want %s to %s", x.zone, x.period, x.at, got, x.start, x.end)
		}
	}
}

// TestWindowsCoverAllTime holds that each time is in the window that it is given, in every zone.
func TestWindowsCoverAllTime(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"} {
		z := zone(t, name)
		for range 20_000 {
			at := events.Stamp(r.Int64N(int64(2 * noon)))
			w := Window{Period: Period(r.IntN(int(periodCount))), Zone: z}
			if start, end := w.Around(at); at < start || at >= end {
				t.Fatalf("%s: the %s around %v is from %v to %v", name, w.Period, at.Time(), start.Time(), end.Time())
			}
		}
	}
}

// step is one thing that happens to an account.
type step struct {
	at    events.Stamp
	spent int64
}

// TestChecksStayWithin plays calls of more flows than are remembered one by one. Each is checked,
// spends no more than is reserved, in parts, and may have its result before its flow has been silent for
// long. No window ever holds more than the budget.
func TestChecksStayWithin(t *testing.T) {
	t.Parallel()
	const idle = events.Stamp(600_000)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := &Budget{Name: "b", Measure: USD, Window: Window{Period: Hour, Rolling: seed%2 == 1}, Hard: 100_000, Soft: Off, Hint: Off, Reserve: 100, Action: events.Deny}
		type call struct {
			flow  uint64
			spent int64
		}
		var a Account
		var open []call
		at, allowed, refused := noon-100_000, 0, 0
		for range 8000 {
			at += events.Stamp(r.IntN(100))
			a.Roll(b, at, at-idle)
			if flow := uint64(r.IntN(1000)); r.IntN(2) == 0 {
				if a.Room(b) >= b.Need(0) {
					a.Allow(b, flow, 0, at, idle)
					open = append(open, call{flow: flow})
					allowed++
				} else {
					refused++
				}
			}
			if len(open) > 0 && (len(open) > 900 || r.IntN(2) == 0) {
				i := r.IntN(len(open))
				c := &open[i]
				n := r.Int64N(b.Reserve - c.spent + 1)
				c.spent += n
				a.Spend(b, c.flow, n, at, at)
				if r.IntN(2) == 0 {
					a.Settle(b, c.flow)
					open = append(open[:i], open[i+1:]...)
				}
			}
			if a.Spent > b.Hard {
				t.Fatalf("seed %d: %d of %d are spent, %d calls allowed", seed, a.Spent, b.Hard, allowed)
			}
			if len(a.claims) > MaxClaims {
				t.Fatalf("%d flows are remembered", len(a.claims))
			}
		}
		if refused == 0 || allowed < 1000 {
			t.Errorf("seed %d: %d calls allowed, %d refused: it tests nothing", seed, allowed, refused)
		}
	}
}

// TestRollingWindow holds the sum of a rolling window against a list of all that was spent: it is
// never less than what the last hour has spent, and at most what an hour and a sixtieth have.
func TestRollingWindow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	b := &Budget{Measure: Tokens, Window: Window{Period: Hour, Rolling: true}, Hard: Off, Soft: Off, Hint: Off}
	var a Account
	var all []step
	at := noon
	for range 5000 {
		at += events.Stamp(r.IntN(60_000))
		a.Roll(b, at, 0)
		late := at - events.Stamp(r.IntN(2)*r.IntN(4_000_000))
		all = append(all, step{at: late, spent: r.Int64N(100)})
		a.Spend(b, 1, all[len(all)-1].spent, late, at)
		least, most := int64(0), int64(0)
		for _, s := range all {
			if s.at > at-3_600_000+60_000 {
				least += s.spent
			}
			if s.at > at-3_600_000-60_000 {
				most += s.spent
			}
		}
		if a.Spent < least || a.Spent > most {
			t.Fatalf("the window holds %d, the last hour %d to %d", a.Spent, least, most)
		}
	}
}

// TestGrants holds that a grant adds to what stands, and ends with its window.
func TestGrants(t *testing.T) {
	t.Parallel()
	b := &Budget{Measure: Calls, Window: Window{Period: Hour}, Hard: 10, Soft: Off, Hint: Off, Action: events.Deny}
	var a Account
	a.Roll(b, noon, 0)
	a.Spend(b, 1, 15, noon, noon) // reports
	if a.Beyond != 5 || !a.Used(b) {
		t.Errorf("%d are beyond the budget, used up: %v", a.Beyond, a.Used(b))
	}
	a.Grant(b, 3, 0, noon)
	a.Grant(b, 2, 0, noon)
	if a.Room(b) != 5 || a.Limit(b) != 20 {
		t.Errorf("room for %d of %d; want 5 of 20", a.Room(b), a.Limit(b))
	}
	if !a.Roll(b, noon+3_600_000, 0) || a.Limit(b) != 10 || a.Before.Spent != 15 || a.Before.Granted != 10 {
		t.Errorf("the next window has %d; before it %+v", a.Limit(b), a.Before)
	}
	a.Spend(b, 1, 1, noon+1, noon+3_600_001)
	if a.Before.Spent != 16 || a.Spent != 0 {
		t.Errorf("a late report counts in the window at hand: %d, before it %d", a.Spent, a.Before.Spent)
	}
}

// fill gives every field of an account a value.
func fill(r *rand.Rand, v reflect.Value) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch x := v.Addr().Interface().(type) {
	case *events.Stamp:
		*x = 1 + events.Stamp(r.Int64N(1<<50))
		return
	case *Kind:
		*x = 1 + Kind(r.IntN(int(kindCount)-1))
		return
	case *Measure:
		*x = 1 + Measure(r.IntN(int(measureCount)-1))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1 + r.Int64N(1<<52))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + uint64(r.Uint32()>>1))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	default:
		panic(v.Kind().String())
	}
}

// TestRecordOfAnAccountHoldsEveryField writes and reads accounts in which every field has a value, and
// damaged records of them.
func TestRecordOfAnAccountHoldsEveryField(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		var want, got Account
		fill(r, reflect.ValueOf(&want).Elem())
		b := want.AppendBinary(nil, noon)
		d := record.NewReader(b)
		if got.Read(&d, noon); d.End("account") != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read\n%+v\nwrote\n%+v", got, want)
		}
		for n := range b {
			d := record.NewReader(b[:n])
			if got.Read(&d, noon); d.End("account") == nil {
				t.Fatalf("the first %d of %d bytes are read as an account", n, len(b))
			}
		}
	}
	var full Account
	fill(r, reflect.ValueOf(&full).Elem())
	full.claims = make([]claim, MaxClaims)
	for i := range full.claims {
		full.claims[i] = claim{r.Uint64(), 1 << 40, 1 << 20, noon, noon}
	}
	if n := len(full.AppendBinary(nil, noon)); n > 10<<10 {
		t.Errorf("a full account takes %d bytes", n)
	}
}

// TestValues holds that long values stay apart in keys, and that names are read back.
func TestValues(t *testing.T) {
	t.Parallel()
	long := make([]byte, 200)
	for i := range long {
		long[i] = 'a'
	}
	b := &Budget{Name: "day"}
	one, two := b.Key(string(long)), b.Key(string(long[:199]))
	if one == two || len(one) > MaxValue+len("budget:day:") {
		t.Errorf("keys %q and %q", one, two)
	}
	if name, value, ok := Split(b.Key("a:b")); name != "day" || value != "a:b" || !ok {
		t.Errorf("read %q, %q, %v", name, value, ok)
	}
	for _, w := range append(ScopeWords()[:len(ScopeWords())-1], "tag:cost-center") {
		if s, ok := ParseScope(w); !ok || s.String() != w {
			t.Errorf("scope %q is read as %q, %v", w, s, ok)
		}
	}
	if _, ok := ParseScope("tag:"); ok {
		t.Error("a tag without a name is a scope")
	}
}
