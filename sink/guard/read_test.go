package guard

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"weir/events"
)

// FuzzReadAnswer holds what is read where its names stand against what encoding/json reads, of lines
// as weir writes them and of others.
func FuzzReadAnswer(f *testing.F) {
	verdict := events.Verdict{SchemaVersion: 1, ID: "v", Time: 1_700_000_000_000, Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopeFlow, ID: "f"},
		Action: events.Allow, Reason: "allowed", CorrelationID: "f"}
	text := string(verdict.AppendJSON(nil))
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `}}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `,"verdict":{}}}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `},"line":13}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `,"allowed":true,"id":"1"}}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `,"allowed":true,"id":"1","Verdict":{}}}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":{"scope":{},"allowed":true,"id":"v"},"allowed":true,"id":"1"}}`)
	f.Add(`{"line":12,"status":200,"body":{"verdict":` + text + `,"allowed":true,"allowed":true,"id":"},\"allowed\":true,"}}`)
	f.Add(`{"line":12,"status":200,"body":{}}}`)
	f.Add(`{"line":12,"status":200,"body":{},"x":1}`)
	f.Add(`{"line":1,"status":200,"body":` + text)
	f.Add(`{"line":01,"status":200,"body":1}`)
	f.Add(`{"line":1,"status":,"body":1}`)
	f.Add(`{"line":9223372036854775808,"status":200,"body":1}`)
	f.Add(`{"line":1,"status":9223372036854775807,"body":1}`)
	f.Add(`{"line":-1,"status":200,"body":1}`)
	f.Add(`{"line":1.5,"status":200,"body":1}`)
	f.Add(` {"status" : 403, "body" : {"reason_code":"x"}, "line" : 7}`)
	f.Fuzz(func(t *testing.T, line string) {
		var want askAnswer
		got, err := readAnswer([]byte(line))
		// Errors have the same words.
		if other := json.Unmarshal([]byte(line), &want); (err == nil) != (other == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v (%v), want %+v (%v)", got, err, want, other)
		}
		v, err := readAllowance(got.Body)
		var around struct{ Verdict json.RawMessage }
		if other := json.Unmarshal(got.Body, &around); other != nil {
			if err == nil {
				t.Fatalf("%s is read as %+v", got.Body, v)
			}
			return
		}
		if other, bad := readVerdict(around.Verdict); (err == nil) != (bad == nil) || err == nil && !reflect.DeepEqual(v, other) {
			t.Fatalf("got %+v (%v), want %+v (%v)", v, err, other, bad)
		}
	})
}

// TestAnswersShareNothing changes the line that an answer was read from.
func TestAnswersShareNothing(t *testing.T) {
	line := []byte(`{"line":1,"status":200,"body":{"verdict":{"id":"v"}}}`)
	a, err := readAnswer(line)
	clear(line)
	if err != nil || a.Line != 1 || a.Status != 200 || !strings.HasPrefix(string(a.Body), `{"verdict":{"id"`) {
		t.Errorf("read %+v, %s (%v)", a, a.Body, err)
	}
}
