package analyzer_test

import (
	"os"
	"strings"
	"testing"

	"weir/analyzer"
)

// FuzzRecord reads records that nobody wrote: they are refused, or are flows that
// can be folded on.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	old, err := os.ReadFile("testdata/flow_v1.record")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(old)
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
