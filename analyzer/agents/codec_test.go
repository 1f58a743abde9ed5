package agents

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"weir/analyzer/budgets"
	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// anyAgent returns an agent in which every field holds something.
func anyAgent(t *testing.T, r *rand.Rand, elements int, text int) *Agent {
	a := new(Agent)
	fillAny(t, r, reflect.ValueOf(a).Elem(), "Agent", elements, text)
	a.key, a.tags = "agent:any", nil
	return a
}

func fillAny(t *testing.T, r *rand.Rand, v reflect.Value, path string, elements, text int) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // unexported fields, too
	switch x := v.Addr().Interface().(type) {
	case *agentCap:
		*x = agentCap{width: 1 + events.Stamp(r.IntN(100_000)), newest: 1 + events.Stamp(r.Int64N(1<<30))}
		for i := range x.counts {
			x.counts[i] = r.Uint32() | 1
		}
		return
	case *ledger.Ledger:
		if elements > 3 {
			return // of no agent; TestRecordOfATreeThatIsFullFits
		}
		*x = anyLedger(r, elements)
		return
	case *budgets.Account:
		return // of no agent; package budgets tests its record
	case *events.Stamp:
		*x = 1 + events.Stamp(r.Int64N(int64(lastStamp)))
		return
	case *RuleID:
		*x = 1 + RuleID(r.IntN(int(RuleAttempts)))
		return
	case *standing.Phase:
		*x = 1 + standing.Phase(r.IntN(int(standing.Stop)))
		return
	case *events.Action:
		*x = events.ActionAt(1 + r.IntN(events.Hold.Place()))
		return
	case *recoveryStep:
		*x = 1 + recoveryStep(r.IntN(int(stepNotified)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(strings.Repeat("text", text/4))
	case reflect.Float64:
		v.SetFloat(r.Float64() + 0.1)
	case reflect.Int64:
		v.SetInt(1 + r.Int64N(1<<61))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64()&(1<<v.Type().Bits()-1) | 1)
	case reflect.Slice:
		n := elements
		if most, ok := listCaps[path]; ok {
			n = min(n, most)
		} else if path != "Agent.tags" {
			t.Fatalf("the record of an agent has a list that this test does not know: %s", path)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillAny(t, r, v.Index(i), path+"[]", elements, text)
		}
		if stamps, ok := v.Interface().([]events.Stamp); ok {
			slices.Sort(stamps)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if v.Type().Field(i).Anonymous {
				name = path // its fields are fields of the agent
			}
			fillAny(t, r, v.Field(i), name, elements, text)
		}
	default:
		t.Fatalf("%s has a kind that this test does not know: %s", path, v.Kind())
	}
}

var listCaps = map[string]int{"Agent.ids": maxIDs, "Agent.stamps": maxGaps, "Agent.works": maxFlows, "Agent.messages": maxStamps,
	"Agent.opened": maxStamps, "Agent.tries": maxStamps, "Agent.orders": maxOrders, "Agent.grants": maxTreeGrants, "Agent.marks": rules.MostMarks, "Agent.notes": maxNotes, "Agent.notes[].Tags": maxNoteTags}

func TestRecordOfAnAgentHoldsEveryField(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var got Agent
	for range 200 {
		want := anyAgent(t, r, 3, 12)
		record, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.UnmarshalBinary("agent:any", record); err != nil {
			t.Fatal(err)
		}
		got.tags = nil
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("read\n%+v\nwrote\n%+v", got, *want)
		}
	}
}

// TestStoredRecords reads records with every field and writes the same bytes.
func TestStoredRecords(t *testing.T) {
	stored, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	var a Agent
	for line := range strings.Lines(string(stored)) {
		want, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.UnmarshalBinary("agent:any", want); err != nil {
			t.Fatal(err)
		}
		if got, err := a.AppendBinary(nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read and written it is (%v)\n%x, want\n%x", err, got, want)
		}
	}
}

func TestRecordOfAnAgentThatIsFullFits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	f := func(text, most, notes int) {
		t.Helper()
		a := anyAgent(t, r, 1<<10, text)
		record, err := a.AppendBinary(nil)
		if err != nil || len(record) > most || len(a.notes) < notes {
			t.Errorf("texts of %d bytes: %d bytes, %d notes left, %v", text, len(record), len(a.notes), err)
		}
		if err := new(Agent).UnmarshalBinary("agent:any", record); err != nil {
			t.Errorf("texts of %d bytes: %v", text, err)
		}
	}
	f(48, 12<<10, maxNotes)
	f(512, MaxRecord, 0)
}

// A record that is cut short, or in which a byte is another, is refused or is the record
// of some agent; it never brings the reader down.
func TestDamagedRecordsOfAgents(t *testing.T) {
	record, err := anyAgent(t, rand.New(rand.NewPCG(5, 6)), 2, 8).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var a Agent
	for n := range record {
		if a.UnmarshalBinary("agent:any", record[:n]) == nil {
			t.Fatalf("the first %d of %d bytes are read as a record", n, len(record))
		}
		for _, b := range []byte{0, 0x7f, 0x80, 0xff} {
			damaged := append([]byte(nil), record...)
			damaged[n] = b
			if a.UnmarshalBinary("agent:any", damaged) == nil {
				if _, err := a.AppendBinary(nil); err != nil {
					t.Fatalf("byte %d is %#x: %v", n, b, err)
				}
			}
		}
	}
	if a.UnmarshalBinary("agent:any", append(record, 0)) == nil {
		t.Error("a byte too many is read as a record")
	}
	record[0] = 99
	if err := a.UnmarshalBinary("agent:any", record); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("the record of a newer weir: %v", err)
	}
}

// The fullest window that holds a time is what any order of arrival finds, as long as all
// that is in reach is remembered.
func TestWindowsDoNotDependOnTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		const width = 100
		var stamps, all []events.Stamp
		for range 1 + r.IntN(60) {
			at := 10_000 + events.Stamp(r.IntN(2*width))
			all = append(all, at)
			var full []events.Stamp
			stamps, full = slide(stamps, at, width)
			most := 0
			for _, end := range all {
				if end < at || end >= at+width {
					continue
				}
				n := 0
				for _, s := range all {
					if s > end-width && s <= end {
						n++
					}
				}
				most = max(most, n)
			}
			if len(full) != most {
				t.Fatalf("%v at %d: %d in the window, want %d", all, at, len(full), most)
			}
		}
	}
}

// Buckets under another window hold what the old ones held, as far as it is in reach.
func TestCapsUnderAnotherWindow(t *testing.T) {
	var c agentCap
	for i := range events.Stamp(100) {
		if !c.count(1_000_000+i*1000, 1000) {
			t.Fatal("not counted")
		}
	}
	f := func(width events.Stamp, want int64) {
		t.Helper()
		scaled := c
		scaled.rescale(width)
		if got := scaled.sum(scaled.newest); got != want {
			t.Errorf("buckets of %d ms: %d, want %d", width, got, want)
		}
	}
	f(1000, 60)
	f(60_000, 60)
	f(500, 30)
	if c.count(1_000_000, 1000) {
		t.Error("what is older than the window is counted")
	}
}

// anyLedger returns a ledger with the given number of children and no figure that is small.
func anyLedger(r *rand.Rand, children int) (l ledger.Ledger) {
	at := events.Stamp(1<<40 + r.Int64N(1<<39))
	l.Begin(at)
	l.Last = at + events.Stamp(r.IntN(1<<22))
	for range children {
		c := l.Hear(r.Uint64()|1, r.Uint64()|1, at+events.Stamp(r.IntN(1<<22)))
		c.NotifiedAt = c.Seen + events.Stamp(r.IntN(1<<20))
		l.Spend(c, ledger.Amount{r.Int64N(1 << 20), r.Int64N(1 << 34), r.Int64N(1 << 34)})
	}
	return l
}

// TestRecordOfATreeThatIsFullFits fills a ledger with more children than are kept, and with
// orders: what does not fit gives way, the children that were silent longest first.
func TestRecordOfATreeThatIsFullFits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	full := anyAgent(t, r, 3, 12)
	full.Reset("tree:" + strings.Repeat("r", events.MaxID))
	full.clock = 1 << 40
	full.tree = anyLedger(r, 2*ledger.MaxChildren)
	for r := RuleTreeCalls; r <= RuleTreeChildren; r++ {
		full.orders = append(full.orders, order{rule: r, Order: standing.Order{Phase: standing.Stop, Due: 1 << 41, Observed: 1 << 60, Limit: 1 << 60}})
	}
	spent := full.tree.Spent
	record, err := full.AppendBinary(nil)
	if err != nil || len(record) > MaxRecord {
		t.Fatalf("%d bytes, %v", len(record), err)
	}
	var got Agent
	if err := got.UnmarshalBinary(full.key, record); err != nil || got.tree.Spent != spent || got.tree.Living() < 300 {
		t.Errorf("%d children, %v of %v: %v", got.tree.Living(), got.tree.Spent, spent, err)
	}
}
