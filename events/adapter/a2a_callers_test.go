package adapter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/events/adapter"
)

// a2aLog writes the lines of a logging proxy.
type a2aLog struct {
	strings.Builder
	headers string
	lines   int
}

func (l *a2aLog) line(direction, agent string, exchange int, rest string) {
	l.lines++
	fmt.Fprintf(l, `{"time":"2026-11-20T14:%02d:%02dZ","direction":%q,"exchange":%d,"proxy":%q,"headers":{%s},%s}`+"\n",
		l.lines/60, l.lines%60, direction, exchange, agent, l.headers, rest)
}

func (l *a2aLog) call(agent string, exchange int, text string) {
	l.line("request", agent, exchange, fmt.Sprintf(`"body":{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":%q}]}}}`, text))
}

func (l *a2aLog) answer(agent string, exchange int, text string) {
	l.line("response", agent, exchange, fmt.Sprintf(`"status":200,"body":{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t-%s-%d","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"text":%q}]}]}}}`, agent, exchange, text))
}

const traced = `"a2a-version":"1.0","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`

// TestA2ACallers holds what is known of the caller, and what follows from it.
func TestA2ACallers(t *testing.T) {
	f := func(name, headers string, write func(*a2aLog), order string, hops ...string) {
		t.Helper()
		l := &a2aLog{headers: headers}
		write(l)
		got := hear(t, strings.NewReader(l.String()), adapter.Options{})
		if !slices.Equal(got.hops, hops) || len(got.faults) > 0 {
			t.Errorf("%s: hops %q, faults %q; want %q", name, got.hops, got.faults, hops)
		}
		if have, _ := judge(got); have != order {
			t.Errorf("%s: %q, want %q", name, have, order)
		}
	}
	workers := func(l *a2aLog) {
		l.call("hub", 1, "Go.")
		for i := range 7 {
			l.call(fmt.Sprint("worker", i), 1, "Do your part.")
		}
		for i := range 7 {
			l.answer(fmt.Sprint("worker", i), 1, "Done.")
		}
		l.answer("hub", 1, "All done.")
	}
	hops := []string{"hub > worker0"}
	for i := 1; i < 7; i++ {
		hops = append(hops, fmt.Sprint("a2a-client > worker", i))
	}
	f("a hub that calls seven workers at once", `"a2a-version":"1.0"`, workers, "", hops...)
	f("the same with a trace", traced, workers, "", hops...)

	again := func(answer string) func(*a2aLog) {
		return func(l *a2aLog) {
			l.call("hub", 1, "Go.")
			for i := range 8 {
				l.call("worker", i+1, "How far are you?")
				l.answer("worker", i+1, strings.ReplaceAll(answer, "N", fmt.Sprint(i)))
			}
			l.answer("hub", 1, "Enough.")
		}
	}
	asked := slices.Repeat([]string{"hub > worker"}, 8)
	f("one question again and again", `"a2a-version":"1.0"`, again("I am not sure."), "warn repeated_delegation at hop 3", asked...)
	f("the same with a trace", traced, again("I am not sure."), "deny repeated_delegation at hop 6", asked...)
	f("one question with new answers", traced, again("N of 8 parts."), "", asked...)

	f("two users at once", `"a2a-version":"1.0"`, func(l *a2aLog) {
		l.call("hub", 1, "Go.")
		l.call("hub", 2, "Go.")
		l.call("worker", 1, "Do it.")
		l.answer("worker", 1, "Done.")
		l.answer("hub", 2, "Done.")
		l.answer("hub", 1, "Done.")
	}, "", "hub > worker")
	f("a flow that comes back from outside", traced, func(l *a2aLog) {
		for i := range 8 {
			l.call("worker", i+1, "How far are you?")
			l.answer("worker", i+1, "I am not sure.")
		}
	}, "deny repeated_delegation at hop 6", slices.Repeat([]string{"a2a-client > worker"}, 7)...)
	f("a call without an answer is not open for ever", `"a2a-version":"1.0"`, func(l *a2aLog) {
		l.call("hub", 1, "Go.")
		l.lines += 31 * 60
		l.call("worker", 1, "Do it.")
	}, "")
}
