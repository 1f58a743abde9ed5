package check

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/events/a2aflow"
)

// TestAuthzPassesTheCasesOfA2AFlow holds the gateway path to the cases of the extension: what a message says
// of its flow and its hops is in the check, and a message that refuses itself is not checked.
func TestAuthzPassesTheCasesOfA2AFlow(t *testing.T) {
	text, err := os.ReadFile("../../events/a2aflow/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name     string                     `json:"name"`
		Metadata map[string]json.RawMessage `json:"metadata"`
		Want     *struct {
			Flow, Parent, Root string
			Hops               int64
		} `json:"want"`
		Refused a2aflow.Refusal `json:"refused"`
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		metadata, _ := json.Marshal(c.Metadata)
		var asked []events.Event
		a := newAuthz(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
			asked = append(asked, *ev)
			return &events.Verdict{Mode: "enforce", Action: "allow"}, nil
		}, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, func() time.Time { return time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC) })
		// In the metadata of the message, or of the request around it.
		for _, body := range []string{strings.Replace(a2a, `"role"`, `"metadata":`+string(metadata)+`,"role"`, 1), strings.Replace(a2a, `"params":{`, `"params":{"metadata":`+string(metadata)+`,`, 1)} {
			asked = nil
			refusal, _, err := a.Decide(t.Context(), &Forwarded{Method: "POST", Host: "gw", Path: "/agents/coder", Body: []byte(body), Header: func(name string) string { return map[string]string{"X-Agent-Id": "planner"}[name] }})
			if err != nil {
				t.Fatal(err)
			}
			if c.Refused != "" {
				if refusal == nil || refusal.Header.Get("Weir-Reason") != "a2a_flow_"+string(c.Refused) || len(asked) != 0 {
					t.Errorf("%s: %d checks, answered %+v", c.Name, len(asked), refusal)
				}
				continue
			}
			if refusal != nil || len(asked) != 1 {
				t.Errorf("%s: %d checks, answered %+v", c.Name, len(asked), refusal)
				continue
			}
			want := events.Event{CorrelationID: "c1", CorrelationSource: events.CorrelationConversation}
			if c.Want != nil {
				want.ParentCorrelationID, want.RootCorrelationID, want.DelegationDepth = c.Want.Parent, c.Want.Root, c.Want.Hops
				if c.Want.Flow != "" {
					want.CorrelationID, want.CorrelationSource = c.Want.Flow, events.CorrelationBaggage
				}
			}
			if ev := asked[0]; ev.CorrelationID != want.CorrelationID || ev.CorrelationSource != want.CorrelationSource || ev.ParentCorrelationID != want.ParentCorrelationID ||
				ev.RootCorrelationID != want.RootCorrelationID || ev.DelegationDepth != want.DelegationDepth {
				t.Errorf("%s: asked %s", c.Name, ev.AppendJSON(nil))
			}
		}
	}
}
