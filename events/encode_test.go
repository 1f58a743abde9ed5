package events

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendJSONWritesText(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		e := Event{Note: &Note{Summary: text}}
		got, _ := strings.CutPrefix(string(e.AppendJSON(nil)), `{"note":{"summary":`)
		if got != want+"}}" {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
		var back string
		if err := json.Unmarshal([]byte(want), &back); err != nil || back != string([]rune(text)) {
			t.Errorf("%s is read as %q, %v", want, back, err)
		}
	}
	f("plain", `"plain"`)
	f("grüße <&>\u2028😀", "\"grüße <&>\u2028😀\"")
	f("a\"b\\c/d", `"a\"b\\c/d"`)
	f("\b\f\n\r\t\x00\x1f\x7f", "\"\\u0008\\u000c\\n\\r\\t\\u0000\\u001f\x7f\"")
	f("a\xffb\xed\xa0\x80", "\"a\uFFFDb\uFFFD\uFFFD\uFFFD\"")
}

func TestAppendJSONLeavesOutWhatIsAbsent(t *testing.T) {
	f := func(e Event, want string) {
		t.Helper()
		if got := string(e.AppendJSON(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(Event{}, `{}`)
	f(Event{Appended: 5, From: Party{Name: "nobody"}, Tool: Tool{CallID: "of nothing"}}, `{}`)
	f(Event{Work: Work{Known: true}, Usage: Usage{Known: true}}, `{"work":{},"usage":{}}`)
	f(Event{HadWork: No, Ask: true}, `{"ask":true,"had_work":false}`)
	f(Event{Note: &Note{}, Ack: &Ack{}, AgentState: &AgentState{HasRisk: true}}, `{"agent_state":{"risk":0},"note":{},"ack":{"applied":false}}`)
	f(Event{Usage: Usage{Known: true, CostMicroUSD: 1}}, `{"usage":{"cost_usd":0.000001}}`)
	f(Event{Usage: Usage{Known: true, CostMicroUSD: 12_000_000}}, `{"usage":{"cost_usd":12}}`)
	f(Event{Usage: Usage{Known: true, CostMicroUSD: 1_230_000}}, `{"usage":{"cost_usd":1.23}}`)
}

func BenchmarkAppendJSON(b *testing.B) {
	var e Event
	if err := Decode([]byte(ordinaryResult), &e); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(ordinaryResult)))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
}
