package analyzer_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/events"
)

// FuzzRecord reads records that nobody wrote: they are refused, or are flows that
// can be folded on.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	for i, c := range scenarioCases(f) {
		if i%7 != 0 {
			continue
		}
		w := newFold(c.Limits(analyzer.Balanced()))
		for _, ev := range c.Events() {
			w.step(f, ev)
		}
		for _, flow := range w.flows {
			record, _ := flow.AppendBinary(nil)
			f.Add(record)
		}
	}
	_, after := tale([]byte(strings.Repeat("what comes after a record that was read", 9)))
	f.Fuzz(func(t *testing.T, record []byte) {
		flow := new(analyzer.Flow)
		if flow.UnmarshalBinary("main", record) != nil {
			return
		}
		again, err := flow.AppendBinary(nil)
		if err != nil || len(again) > analyzer.MaxRecord {
			t.Fatalf("written again it has %d bytes: %v", len(again), err)
		}
		w := newFold(tight())
		w.flows["main"] = flow
		for _, ev := range after {
			ev.CorrelationID = "main"
			w.step(t, ev)
		}
	})
}

// TestStoredRecords reads records with every field that is kept and writes the same bytes. They are
// read into one flow, so that nothing of a record remains in the next.
func TestStoredRecords(t *testing.T) {
	stored, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := new(analyzer.Flow)
	for line := range strings.Lines(string(stored)) {
		want, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.UnmarshalBinary("main", want); err != nil {
			t.Fatal(err)
		}
		most := f.AtMost()
		if got, err := f.AppendBinary(nil); err != nil || !bytes.Equal(got, want) || len(got) > most {
			t.Errorf("read and written it is (%v), at most %d bytes,\n%x, want\n%x", err, most, got, want)
		}
	}
}

// TestRecordOfAnotherVersionIsRefused holds for older and newer ones: the log has it all.
func TestRecordOfAnotherVersionIsRefused(t *testing.T) {
	record, err := folded(ordinary("flow-1", 20)).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	const mine = 5
	for _, version := range []byte{0, 3, mine + 1} {
		record[0] = version
		err := new(analyzer.Flow).UnmarshalBinary("flow-1", record)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has version %d, this weir reads versions 4 to %d", version, mine)) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// TestRecordHasRoomForMore reads a record in which the head and a party have a second byte of
// presence bits: an empty one changes nothing, and a bit that this weir does not know is refused.
func TestRecordHasRoomForMore(t *testing.T) {
	const head = 81
	event := events.Event{ID: "1", Source: "s", Time: 1_700_000_000_000, Kind: events.LLMCall, CorrelationID: "main", From: events.Party{Agent: "a"}}
	flow := new(analyzer.Flow)
	_, flow, _ = analyzer.New(analyzer.Balanced()).Fold(analyzer.Partition{}, flow, &event)
	was, err := flow.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	party := len(was) - 22 - len("a") // the only one, and nothing behind it
	ids := party - 8
	if ids != head+len("\x01s") || string(was[len(was)-1:]) != "a" {
		t.Fatalf("the record is laid out in another way: % x", was)
	}
	with := func(ofHead, ofParty byte) []byte {
		b := slices.Concat(was[:ids], []byte{ofHead}, was[ids:], []byte{ofParty})
		b[3] |= 0x80
		b[party+1+1] |= 0x80 // behind the byte that was put in, the high byte of the length
		return b
	}
	read := new(analyzer.Flow)
	if err := read.UnmarshalBinary("main", with(0, 0)); err != nil {
		t.Fatal(err)
	}
	if again, err := read.AppendBinary(nil); err != nil || !bytes.Equal(again, was) {
		t.Errorf("read with room for more it is % x (%v), want % x", again, err, was)
	}
	for _, b := range [][]byte{with(2, 0), with(0, 1)} {
		if err := new(analyzer.Flow).UnmarshalBinary("main", b); err == nil || !strings.Contains(err.Error(), "a newer weir wrote it") {
			t.Errorf("a field of a newer weir: %v", err)
		}
	}
}

// sumTold is a model's call of which its source tells the sum so far, in tokens and dollars.
func sumTold(n int, source, agent string, tokens, dollars int64) events.Event {
	return events.Event{ID: fmt.Sprint(source, n), Source: source, Time: 1_700_000_000_000, Kind: events.LLMCall, CorrelationID: "main",
		From:  events.Party{Agent: agent},
		Usage: events.Usage{Known: true, Scope: events.UsageCumulative, Total: tokens, CostMicroUSD: dollars * 1_000_000}}
}

// TestOlderSums reads a record of an older weir, which kept sums of tokens alone and counted
// 4 dollars and then 5 as 9: what was told before is not counted again.
func TestOlderSums(t *testing.T) {
	record, err := hex.DecodeString("0402020000ff0200010000000000000000000000000068e5cf8b0100000068e5cf8b0100000068e5cf8b01000000000000000000000068e5cf8b01000002000000000000000000000000000100000000000000cc08c0a8a504f974527c634b1b7630bb2e73a80f600d0100ff09000000000200000000000000000000000000610000cc08")
	if err != nil {
		t.Fatal(err)
	}
	w := newFold(analyzer.Balanced())
	f := new(analyzer.Flow)
	read := func() {
		t.Helper()
		if err := f.UnmarshalBinary("main", record); err != nil {
			t.Fatal(err)
		}
		w.flows["main"] = f
	}
	read()
	record, _ = f.AppendBinary(nil) // written again before anything else is told
	read()
	for n, want := range [][2]int64{{1200, 9_000_000}, {1300, 10_000_000}} {
		w.step(t, sumTold(2+n, "x", "a", 1200+100*int64(n), 6+int64(n)))
		if _, tokens, cost := f.Spent(); tokens != want[0] || cost != want[1] {
			t.Errorf("%d tokens and %d, want %d", tokens, cost, want)
		}
		record, _ = f.AppendBinary(nil)
		read()
	}
}

// TestManySums holds a record to its size, whoever tells sums of whom; the last that were told
// are kept.
func TestManySums(t *testing.T) {
	w := newFold(analyzer.Balanced())
	const most = 1 << 59
	for n := range 40 {
		for a := range 40 {
			w.step(t, sumTold(n*40+a, fmt.Sprint("source-", n), fmt.Sprint("agent-", a), most, 1))
		}
	}
	f := w.flows["main"]
	record, err := f.AppendBinary(nil)
	if err != nil || len(record) > 3<<10 {
		t.Fatalf("the record has %d bytes: %v", len(record), err)
	}
	_, _, before := f.Spent()
	w.step(t, sumTold(2000, "source-39", "agent-39", most, 3))
	if _, _, cost := f.Spent(); cost != before+2_000_000 {
		t.Errorf("cost grew from %d to %d", before, cost)
	}
}
