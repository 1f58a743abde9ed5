package analyzer_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/analyzer"
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

// TestRecordOfAnotherVersionIsRefused holds for older and newer ones: the log has it all.
func TestRecordOfAnotherVersionIsRefused(t *testing.T) {
	record, err := folded(ordinary("flow-1", 20)).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	mine := record[0]
	for _, version := range []byte{0, mine - 1, mine + 1} {
		record[0] = version
		err := new(analyzer.Flow).UnmarshalBinary("flow-1", record)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has version %d, this weir reads version %d", version, mine)) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
