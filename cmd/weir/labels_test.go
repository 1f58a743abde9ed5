package main

import (
	"encoding/json"
	"testing"
)

func TestCriteria(t *testing.T) {
	f := func(labels string, want judgement, flags ...[]string) {
		t.Helper()
		var m map[string]any
		if err := json.Unmarshal([]byte(labels), &m); err != nil {
			t.Fatal(err)
		}
		by := defaultCriteria()
		if len(flags) > 0 {
			by = newCriteria(flags[0], flags[1])
		}
		if got := by.judge(m); got != want {
			t.Errorf("%s: judged %d, want %d", labels, got, want)
		}
	}
	// What the published sets say.
	f(`{"loop_2plus":true,"loop_any":true,"end":"other"}`, shouldBeCaught)
	f(`{"loop_2plus":false,"loop_any":true,"end":"max_rounds"}`, shouldBeLeftAlone)
	f(`{"reward":1.0,"success":true}`, shouldBeLeftAlone)
	f(`{"reward":1}`, shouldBeLeftAlone)
	f(`{"reward":0.0,"success":false}`, saysNothing)
	f(`{"ran_to_cap":true,"correct":true}`, shouldBeCaught)
	f(`{"ran_to_cap":false,"correct":false}`, shouldBeLeftAlone)
	f(`{"exit":"exit_cost"}`, shouldBeCaught)
	f(`{"exit":"submitted (exit_cost)","resolved":true}`, shouldBeCaught)
	f(`{"exit":"submitted"}`, shouldBeLeftAlone)
	f(`{"exit_status":"early_exit"}`, saysNothing)
	f(`{"exit":null,"out_of_budget":true}`, shouldBeCaught)
	f(`{"out_of_budget":false,"submitted":true}`, shouldBeLeftAlone)
	f(`{"out_of_budget":false}`, shouldBeLeftAlone)
	f(`{"looping":"Yes","success":true}`, shouldBeCaught)
	f(`{"looping":"no"}`, shouldBeLeftAlone)
	f(`{"finished":true}`, shouldBeLeftAlone)
	f(`{"finished":false}`, saysNothing)
	f(`{"human":{"Step repetition":1}}`, shouldBeCaught)
	f(`{"human_step_repetition":0}`, shouldBeLeftAlone)
	f(`{"mistake_step":"12"}`, saysNothing)
	f(`{}`, saysNothing)
	// Flags take the place of all of it.
	f(`{"looping":true,"verdict":"bad"}`, shouldBeCaught, []string{"verdict=BAD"}, nil)
	f(`{"looping":true}`, saysNothing, []string{"verdict=bad"}, []string{"fine"})
	f(`{"fine":true,"looping":true}`, shouldBeLeftAlone, []string{"verdict=bad"}, []string{"fine"})
	f(`{"a":{"b":3}}`, shouldBeCaught, []string{"a.b=3"}, nil)
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
