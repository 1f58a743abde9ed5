package spanjson_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/spanjson"
)

// read returns the events of a log, without ids.
func read(t *testing.T, text string) (told []string) {
	t.Helper()
	if f := spanjson.Format(); f.Score(&adapter.Head{Bytes: []byte(text)}) != adapter.Certain {
		t.Errorf("not known: %.80s", text)
	}
	f := spanjson.Format()
	r, err := adapter.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	err = adapter.Read(r, f, f.New(adapter.Options{}), func(e *events.Event) {
		told = append(told, fmt.Sprintf("%v %v %s %s>%s %s %v", e.Time, e.Kind, e.CorrelationID, e.From.Agent, e.To.Agent, e.Tool.Name, e.Status))
	}, func(f adapter.Fault) { t.Error(f) })
	if err != nil {
		t.Error(err)
	}
	return told
}

// TestJaeger reads a trace as Jaeger's page gives it, and as its spans stand in Elasticsearch, with
// ids that have lost the zeros before them.
func TestJaeger(t *testing.T) {
	const tags = `"tags":[{"key":"gen_ai.operation.name","type":"string","value":"execute_tool"},{"key":"gen_ai.tool.name","type":"string","value":"grep"},{"key":"gen_ai.tool.call.arguments","type":"string","value":"{}"},{"key":"error","type":"bool","value":true}]`
	const root = `"spanID":"0a","operationName":"invoke_agent a","references":[],"startTime":1763647200000000,"duration":9000000,"tags":[{"key":"gen_ai.operation.name","type":"string","value":"invoke_agent"},{"key":"gen_ai.agent.name","type":"string","value":"a"}]`
	const tool = `"spanID":"b0","operationName":"execute_tool grep","references":[{"refType":"CHILD_OF","traceID":"bf","spanID":"0a"}],"startTime":1763647201000000,"duration":500000,` + tags
	page := read(t, `{"data":[{"traceID":"bf","spans":[{"traceID":"bf",`+root+`,"processID":"p1"},{"traceID":"bf",`+tool+`,"processID":"p1"}],"processes":{"p1":{"serviceName":"s"}}}],"total":0}`)
	rows := read(t, `{"traceID":"bf",`+tool+`,"process":{"serviceName":"s"}}`+"\n"+`{"traceID":"bf",`+root+`,"process":{"serviceName":"s"}}`)
	const trace = "000000000000000000000000000000bf"
	want := []string{
		"1763647200000 agent.call " + trace + " >a  ",
		"1763647201000 tool.call " + trace + " a> grep ",
		"1763647201500 tool.result " + trace + " a> grep error",
		"1763647209000 agent.return " + trace + " a>  ok",
	}
	if !slices.Equal(page, want) || !slices.Equal(rows, want) {
		t.Errorf("the page tells\n%s\nthe rows\n%s\nwant\n%s", strings.Join(page, "\n"), strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
}
