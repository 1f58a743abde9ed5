package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"weir/cmd/internal/backtest"
)

func TestCriteria(t *testing.T) {
	f := func(labels, want string, caught, honest []string) {
		t.Helper()
		var m map[string]any
		if err := json.Unmarshal([]byte(labels), &m); err != nil {
			t.Fatal(err)
		}
		if got := newCriteria(caught, honest).mark(m); got != want {
			t.Errorf("%s: judged %q, want %q", labels, got, want)
		}
	}
	looping, fine := []string{"looping"}, []string{"success", "reward=1"}
	f(`{"looping":true,"success":false}`, backtest.Right, looping, fine)
	f(`{"looping":"Yes","success":true}`, backtest.Right, looping, fine) // who loops should be caught, however it ended
	f(`{"looping":false,"success":true}`, backtest.Wrong, looping, fine)
	f(`{"reward":1.0}`, backtest.Wrong, looping, fine)
	f(`{"looping":false,"success":false}`, "", looping, fine)
	f(`{"looping":false}`, backtest.Wrong, looping, []string{"looping=false"})
	f(`{"Step repetition":1}`, backtest.Right, []string{"step_repetition"}, nil)
	f(`{"verdict":"bad"}`, backtest.Right, []string{"verdict=BAD"}, nil)
	f(`{"looping":true}`, "", []string{"verdict=bad"}, []string{"fine"})
	f(`{"a":{"b":3}}`, backtest.Right, []string{"a.b=3"}, nil)
	f(`{}`, "", looping, fine)

	// Without flags the words are known that people use.
	usual := func(labels, want string) {
		t.Helper()
		f(labels, want, nil, nil)
	}
	usual(`{"loop_2plus":true,"loop_any":true,"end":"other"}`, backtest.Right)
	usual(`{"loop_2plus":false,"loop_any":true,"end":"max_rounds"}`, backtest.Wrong)
	usual(`{"reward":1.0,"success":true}`, backtest.Wrong)
	usual(`{"reward":1}`, backtest.Wrong)
	usual(`{"reward":0.0,"success":false}`, "")
	usual(`{"ran_to_cap":true,"correct":true}`, backtest.Right)
	usual(`{"ran_to_cap":false,"correct":false}`, backtest.Wrong)
	usual(`{"exit":"submitted (exit_cost)","resolved":true}`, backtest.Right)
	usual(`{"exit":"submitted"}`, backtest.Wrong)
	usual(`{"exit_status":"early_exit"}`, "")
	usual(`{"exit":null,"out_of_budget":true}`, backtest.Right)
	usual(`{"out_of_budget":false,"submitted":true}`, backtest.Wrong)
	usual(`{"out_of_budget":false}`, backtest.Wrong)
	usual(`{"looping":"Yes","success":true}`, backtest.Right)
	usual(`{"looping":"no"}`, backtest.Wrong)
	usual(`{"finished":false}`, "")
	usual(`{"human":{"Step repetition":1}}`, backtest.Right)
	usual(`{"human_step_repetition":0}`, backtest.Wrong)
	usual(`{"mistake_step":"12"}`, "")
	usual(`{}`, "")
}

func TestLabelName(t *testing.T) {
	for path, want := range map[string]string{"/x/whowhen_hc.labels.jsonl.gz": "whowhen_hc", "a.jsonl": "a", "labels": "labels"} {
		if got := labelName(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	f := func(want float64, of ...float64) {
		t.Helper()
		if got := median(of); got != want {
			t.Errorf("%v: got %v, want %v", of, got, want)
		}
	}
	f(0)
	f(3, 3)
	f(2, 3, 1)
	f(2.5, 4, 1, 2, 3)
}

// TestLabelsThatMatchNothing says of labels that name other flows, or nothing that can be
// judged, what is wrong with them, and gives no figures.
func TestLabelsThatMatchNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log.jsonl", `{"id":"a","kind":"agent.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"d/1","to":{"agent":"b"}}`+"\n")
	f := func(labels string, code int, parts ...string) {
		t.Helper()
		write("known.labels.jsonl", labels+"\n")
		got, out, errs := weir(t, "", "replay", "log.jsonl", "--summary", "--caught", "looping", "--honest", "looping=false", "--labels", "known.labels.jsonl")
		if got != code {
			t.Errorf("%s: exit code %d, want %d", labels, got, code)
		}
		if code != 0 && strings.Contains(out, "WRONGLY") {
			t.Errorf("%s: figures all the same:\n%s", labels, out)
		}
		for _, part := range parts {
			if !strings.Contains(out+errs, part) {
				t.Errorf("%s: no %q in\n%s%s", labels, part, out, errs)
			}
		}
	}
	f(`{"dataset":"d","trace_id":"1","labels":{"looping":false}}`, 0, "WRONGLY", "0 of 1 (0 %)")
	f(`{"dataset":"e","trace_id":"1","labels":{"looping":false}}`, 1, "none of the 1 trace labelled in it", `"e/1"`, `"d/1"`)
	// A log of one's own has flows of any name, and may be a folder.
	f(`{"trace_id":"d/1","labels":{"looping":false}}`, 0, "WRONGLY", "0 of 1 (0 %)")
	if code, out, errs := weir(t, "", "replay", ".", "--summary", "--labels", "known.labels.jsonl"); code != 0 || !strings.Contains(out, "0 of 1 (0 %)") {
		t.Errorf("a folder with labels: exit code %d\n%s%s", code, out, errs)
	}
	f(`{"dataset":"e","trace_id":"1","labels":{"looping":false}}`, 1, "none of the 1 trace labelled in it", `"e/1"`, `"d/1"`)
	if code, _, errs := weir(t, "", "limits", "calibrate", "log.jsonl", "--labels", "known.labels.jsonl"); code == 0 || !strings.Contains(errs, "none of the 1 trace labelled") {
		t.Errorf("calibrate by labels of other flows: exit code %d, %s", code, errs)
	}
	f(`{"dataset":"d","trace_id":"1","labels":{"colour":"red","size":3}}`, 1, "no label says", "--caught", "colour, size")
	f(`{"dataset":"d","trace_id":"1","labels":{"looping":false}}`+"\n"+`{"dataset":"e","trace_id":"1","labels":{"looping":true}}`, 0, "1 of 2 traces are not in the files", "0 of 1 (0 %)")
}
