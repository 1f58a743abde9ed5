package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/events"
)

// TestKindsOf holds that a live set is not read as the neutral one whose name it begins with.
func TestKindsOf(t *testing.T) {
	for file, want := range map[string]string{
		"intercode_even.events.jsonl.gz":      "InterCode false",
		"intercode_live_even.events.jsonl.gz": "InterCode true",
		"masft_ag2_even.events.jsonl.gz":      "AG2, two agents false, AG2, group chat false",
		"sweagent_live_odd.events.jsonl.gz":   "SWE-agent true",
		"unknown.events.jsonl.gz":             "",
	} {
		var got []string
		for _, k := range kindsOf(file) {
			got = append(got, fmt.Sprint(k.name, " ", k.live))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s is %v, want %s", file, got, want)
		}
	}
}

// TestWithNeutral holds that each live set has a neutral form once, and that one form of a name is calibrated.
func TestWithNeutral(t *testing.T) {
	k := &kind{}
	sets := []*set{{name: "a", kind: k, live: true}, {name: "a", kind: k}, {name: "b", kind: k, live: true}, {name: "c", kind: k}, {name: "sessions", live: true}}
	var got []string
	for _, s := range withNeutral(sets) {
		got = append(got, fmt.Sprint(s.name, " live ", s.live, " stripped ", s.stripped, " calibrated ", s.calibrated))
	}
	want := []string{
		"a live true stripped false calibrated true",
		"a live false stripped false calibrated false",
		"b live true stripped false calibrated true",
		"b live false stripped true calibrated false",
		"c live false stripped false calibrated true",
		"sessions live true stripped false calibrated false",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMeasureBothForms measures a set of live events: failing calls that bring nothing but their error. Without
// statuses nothing is known of them, so only the live form finds the loops.
func TestMeasureBothForms(t *testing.T) {
	folder := t.TempDir()
	var log, said strings.Builder
	for f := range 4 {
		for i := range 12 {
			at := events.Stamp(1_700_000_000_000 + 1000*i).Time().Format("2006-01-02T15:04:05.000Z")
			args := 100*f + i
			if f < 2 {
				args = f + 1
			}
			fmt.Fprintf(&log, `{"id":"%d-%d","time":%q,"kind":"tool.call","correlation_id":"r%d","from":{"agent":"a"},"tool":{"name":"run","call_id":"c%d-%d","args_hash":"xxh64:%016x"}}`+"\n", f, i, at, f, f, i, args)
			status := `"ok"`
			if f < 2 {
				status = `"error","error_type":"no such file"`
			}
			fmt.Fprintf(&log, `{"id":"%d-%d-r","time":%q,"kind":"tool.result","correlation_id":"r%d","from":{"agent":"a"},"tool":{"name":"run","call_id":"c%d-%d","args_hash":"xxh64:%016x","result_bytes":%d},"status":%s}`+"\n", f, i, at, f, f, i, args, 300+args, status)
		}
		fmt.Fprintf(&said, `{"trace_id":"r%d","labels":{"model":"other","failed":%v,"solved":%v}}`+"\n", f, f < 2, f >= 2)
	}
	for name, text := range map[string]string{"cc_bench.events.jsonl.gz": log.String(), "cc_bench.labels.jsonl.gz": said.String()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sets, err := measureAll(limitfile.Default(), "", []string{folder})
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) != 2 {
		t.Fatalf("%d sets, want the live one and its neutral form", len(sets))
	}
	var page strings.Builder
	if err := writeReport(&page, limitfile.Default(), sets); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| coding agent | 0.0 / 0.0 (0 / 0 of 2) | 0.0 / 0.0 (0 / 0 of 2) | 100.0 / 100.0 (2 / 2 of 2) | 0.0 / 0.0 (0 / 0 of 2) | 0.0 % / 50.0 % |",
		"| coding agent | at most 5.0 % | takes 38 honest runs, and there are 2 | | |",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String()[:min(2000, page.Len())])
		}
	}
}

// TestStrip holds that times are made up by flow, although the text of an event is good for one call only.
func TestStrip(t *testing.T) {
	var n neutral
	var ev events.Event
	var got []string
	line := []byte(`{"id":"1","time":"2026-03-02T10:00:00Z","kind":"tool.result","correlation_id":"r1","from":{"agent":"a"},"tool":{"name":"run","call_id":"c","args_hash":"xxh64:0000000000000001","result_bytes":300},"status":"error","error_type":"gone","duration_ms":7}`)
	at := strings.Index(string(line), `"r1"`) + 2
	for _, flow := range "12131" {
		line[at] = byte(flow)
		if err := events.Decode(line, &ev); err != nil {
			t.Fatal(err)
		}
		n.strip(&ev)
		got = append(got, fmt.Sprint(ev.CorrelationID, " ", (ev.Time-begin)/apart))
		if ev.Tool.ResultSize != 0 || ev.Status != events.StatusUnset || ev.ErrorType != "" || ev.DurationMS != 0 {
			t.Errorf("%+v is not neutral", ev)
		}
	}
	if want := "r1 0, r2 0, r1 1, r3 0, r1 2"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
