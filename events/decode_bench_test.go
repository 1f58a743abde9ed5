package events

import (
	"encoding/json"
	"testing"
)

// Two ordinary events of about 300 bytes each, as producers write them.
const (
	ordinaryCall = `{"id":"01JD8XKQ4V7N2T5B6M9R0S3W1Y","source":"/dispatcher","time":"2026-11-20T14:00:04.125Z","kind":"agent.call","correlation_id":"flow-8f14e45fceea167a","origin":"agent","from":{"session":"session-17"},"to":{"session":"session-42"},"causation_id":"01JD8XKQ3A","content_hash":"xxh64:0123456789abcdef"}`

	ordinaryResult = `{"id":"01JD8XKQ4V7N2T5B6M9R0S3W2Z","source":"/gateway","time":"2026-11-20T14:00:05.250Z","kind":"tool.result","correlation_id":"flow-8f14e45fceea167a","from":{"session":"session-42"},"tool":{"name":"search","call_id":"call-311","args_hash":"xxh64:4f3a2b9c00112233"},"content_hash":"xxh64:89abcdef01234567","status":"ok","duration_ms":12.5}`
)

func TestDecodeOfAnOrdinaryEventAllocatesNothing(t *testing.T) {
	f := func(text string) {
		t.Helper()
		p, e := []byte(text), new(Event)
		var err error
		if n := testing.AllocsPerRun(100, func() { err = Decode(p, e) }); n != 0 || err != nil {
			t.Errorf("%v allocations, error %v; want none: %s", n, err, text)
		}
	}
	f(ordinaryCall)
	f(ordinaryResult)
	f(` { "id" : "1" , "time" : "2026-11-20T14:00:00+01:00" , "kind" : "tool.call" , "unheard_of" : [ { "a" : "b\n" } ] ,
		"tool" : { "name" : "grüße" , "args" : { "path" : "a\\b" , "n" : [ 1e5 , null , true ] } } } `)
	f(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"llm.call","usage":{"input_tokens":97,"output_tokens":52,"cost_usd":0.00123},
		"specversion":"1.0","type":"weir.llm.call.v1","datacontenttype":"application/json"}`)
}

func BenchmarkDecode(b *testing.B) {
	f := func(name, text string) {
		p := []byte(text)
		b.Run(name+"/weir", func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			var e Event
			for b.Loop() {
				if err := Decode(p, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				var e looseEvent
				if err := json.Unmarshal(p, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	f("agent.call", ordinaryCall)
	f("tool.result", ordinaryResult)
}

// looseEvent is what the usual decoder would be given for these two events.
type looseEvent struct {
	ID            string     `json:"id"`
	Source        string     `json:"source"`
	Time          string     `json:"time"`
	Kind          string     `json:"kind"`
	CorrelationID string     `json:"correlation_id"`
	CausationID   string     `json:"causation_id"`
	Origin        string     `json:"origin"`
	From          looseParty `json:"from"`
	To            looseParty `json:"to"`
	Tool          struct {
		Name     string `json:"name"`
		CallID   string `json:"call_id"`
		ArgsHash string `json:"args_hash"`
	} `json:"tool"`
	ContentHash string  `json:"content_hash"`
	Status      string  `json:"status"`
	DurationMS  float64 `json:"duration_ms"`
}

type looseParty struct {
	Session string `json:"session"`
	Agent   string `json:"agent"`
}
