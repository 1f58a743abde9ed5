package analyzer_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/analyzer/scenario"
	"weir/events"
)

// TestEveryPeriodIsFound repeats a word of each length that is looked for.
func TestEveryPeriodIsFound(t *testing.T) {
	for period := 2; period <= 16; period++ {
		for times := 2; times <= 5; times++ {
			var word, log []int
			for i := range period {
				word = append(word, i)
			}
			for range times {
				log = append(log, word...)
			}
			row := analyzer.RuleToolCycle
			if period >= 8 {
				row = analyzer.RuleToolCycleLong
			}
			found(t, log, word, times, true, toolCalls(log), row)
			if period <= 8 {
				found(t, log, word, times, true, hops(log), analyzer.RulePingPongSame)
				found(t, log, word, times, true, hops(log), analyzer.RulePingPongOther)
			}
		}
	}
}

// FuzzCycle repeats a word of hops, and of tool calls, and looks for it in time.
func FuzzCycle(f *testing.F) {
	f.Add([]byte{2, 3, 0, 1, 2, 3})
	f.Add([]byte{8, 4, 3, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{16, 2, 5, 1, 1, 2, 1, 2, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		at := 0
		next := func(n int) int {
			if at >= len(data) {
				return at % n
			}
			at++
			return int(data[at-1]) % n
		}
		period, times, noise := 2+next(15), 2+next(4), next(6)
		var word []int
		for i := range period {
			if next(3) == 0 {
				word = append(word, next(4)) // letters may come back within the word
			} else {
				word = append(word, 10+i)
			}
		}
		var log []int
		for range noise {
			log = append(log, 100+len(log))
		}
		for range times {
			log = append(log, word...)
		}
		distinct := true
		for i := range word {
			distinct = distinct && slices.Index(word, word[i]) == i
		}
		if !primitive(word) {
			return
		}
		if period <= 8 {
			found(t, log, word, times, distinct, hops(log), analyzer.RulePingPongOther)
			found(t, log, word, times, distinct, hops(log), analyzer.RulePingPongSame)
		}
		row := analyzer.RuleToolCycle
		if period >= 8 {
			row = analyzer.RuleToolCycleLong
		}
		found(t, log, word, times, distinct, toolCalls(log), row)
	})
}

// primitive tells that the word is not a shorter word over and over.
func primitive(word []int) bool {
	for p := 1; p < len(word); p++ {
		if len(word)%p == 0 && slices.Equal(word[p:], word[:len(word)-p]) {
			return false
		}
	}
	return true
}

// found folds the log by one rule that stops at the last repetition, and wants its
// verdict with the last letter; it may come earlier only when the word has cycles
// of its own or what comes before it prolongs it.
func found(t *testing.T, log, word []int, times int, distinct bool, evs []events.Event, row analyzer.RuleID) {
	l := analyzer.Balanced()
	for i := range l.Rules {
		l.Rules[i].Mode = rules.ModeOff
	}
	l.Rules[row] = rules.Setting{Warn: rules.Off, Stop: int64(times)}
	w := newFold(l)
	each := len(evs) / len(log)
	for i := range evs {
		w.step(t, evs[i])
		vs := w.verdicts["main"]
		switch letter := i/each + 1; {
		case len(vs) == 0:
			continue
		case distinct && letter < len(log):
			t.Fatalf("%s: %v, %d times the word %v, is found at %d already", analyzer.Rules[row].Name, log, times, word, letter)
		case distinct && vs[0].Evidence.Period != int64(len(word)):
			t.Fatalf("%s: %v: the period is told as %d, want %d", analyzer.Rules[row].Name, log, vs[0].Evidence.Period, len(word))
		}
		return
	}
	t.Fatalf("%s: %v, %d times the word %v, is not found", analyzer.Rules[row].Name, log, times, word)
}

func hops(log []int) (out []events.Event) {
	for i, letter := range log {
		out = append(out, events.Event{ID: fmt.Sprint(i), Source: "cycle", Time: scenario.Start + events.Stamp(i*1000), Kind: events.AgentCall, CorrelationID: "main",
			From: events.Party{Session: string(rune('a' + letter%26))}, To: events.Party{Session: string(rune('a' + (letter+1+letter/100)%26))},
			HadWork: events.No, Content: events.Hash{Algorithm: events.XXH64, Value: uint64(letter)}})
	}
	return out
}

func toolCalls(log []int) (out []events.Event) {
	for i, letter := range log {
		ev := events.Event{ID: fmt.Sprint("c", i), Source: "cycle", Time: scenario.Start + events.Stamp(i*1000), Kind: events.ToolCall, CorrelationID: "main",
			From: events.Party{Session: "a"}, Tool: events.Tool{Name: "t", CallID: fmt.Sprint(i), ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(letter)}}}
		out = append(out, ev)
		ev.ID, ev.Kind, ev.Content = fmt.Sprint("r", i), events.ToolResult, events.Hash{Algorithm: events.XXH64, Value: uint64(letter)}
		out = append(out, ev)
	}
	return out
}
