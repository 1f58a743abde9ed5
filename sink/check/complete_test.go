package check

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// heldAt is the time of a check that gives none.
var heldAt = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

// TestComplete fills in the id and the time, and nothing else.
func TestComplete(t *testing.T) {
	m := Missing{ID: "made", Time: events.StampOf(heldAt)}
	f := func(text, id, want string) {
		t.Helper()
		var ev events.Event
		err := events.Decode([]byte(text), &ev)
		line, err := Complete(&ev, err, m)
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			return
		case err != nil:
			t.Errorf("%s: %v", text, err)
			return
		}
		var again events.Event
		if err := events.Decode(line, &again); err != nil || !reflect.DeepEqual(ev, again) || ev.ID != id || ev.Time == 0 || ev.Tool.Name != "x" || ev.Content.IsZero() {
			t.Errorf("%s becomes %s, %+v (%v)", text, line, ev, err)
		}
	}
	const rest = `"kind":"tool.call","correlation_id":"f","tool":{"name":"x"},"content_hash":"xxh64:0000000000000001"}`
	f(`{`+rest, "made", "")
	f(`{"id":"own",`+rest, "own", "")
	f(`{"time":"2026-11-20T13:00:00Z",`+rest, "made", "")
	f(`{}`, "", `missing_field, field "kind"`)
	f(`{"kind":"tool.call"}`, "", `missing_field, field "tool"`)
	f(`{"id":null,`+rest, "", "wrong_type")
	f(`{"id":"",`+rest, "", "must not be empty")
	f(`{"kind":"tool.call","tool":{}}`, "", "tool.name")
	m = Missing{Time: m.Time}
	f(`{`+rest, "", `missing_field at byte`)
	f(`{"id":"own",`+rest, "own", "")
}

// TestOneShape holds that all answers of /v1/check have the same members, and says what is in them.
func TestOneShape(t *testing.T) {
	verdicts := map[string]*events.Verdict{
		"allow":    {ID: "v1", Mode: "enforce", Action: "allow", Reason: "allowed"},
		"warn":     {ID: "v2", Mode: "enforce", Action: "warn", Reason: "max_cost_usd_exceeded", Message: `90 % of "5" <usd>`},
		"shadow":   {ID: "v3", Mode: "shadow", Action: "deny", Reason: "self_call", Message: "would be refused"},
		"deny":     {ID: "v4", Mode: "enforce", Action: "deny", Reason: "self_call", HTTPStatus: 400, Message: "no"},
		"throttle": {ID: "v5", Mode: "enforce", Action: "throttle", Reason: "call_rate_exceeded", RetryAfterS: 7},
		"hold":     {ID: "v6", Mode: "enforce", Action: "hold", Reason: "max_cost_usd_exceeded", HTTPStatus: 402, ExpiresAt: 1_795_183_260_000},
		"halt":     {ID: "v7", Mode: "enforce", Action: "halt", Reason: "operator_stop", Message: "no"},
	}
	status := map[string]int{"allow": 200, "warn": 200, "shadow": 200, "deny": 400, "throttle": 429, "hold": 402, "halt": 403}
	for action, v := range verdicts {
		var got *events.Event
		h := &Handler{Now: func() time.Time { return heldAt }, Hint: func(*events.Event) string { return `no "x"` },
			Check: oneByOne(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) { got = ev; return v, nil }),
			Fail:  func(_ http.ResponseWriter, _ *http.Request, err error) { t.Errorf("%s: %v", action, err) }}
		for _, media := range []string{"application/json", manyAsks} {
			r := httptest.NewRequest("POST", "/v1/check", strings.NewReader(`{"kind":"agent.call","correlation_id":"f","from":{"agent":"ä"},"to":{"agent":"b"}}`))
			r.Header.Set("Content-Type", media)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var line struct {
				Status int
				Body   json.RawMessage
			}
			line.Status, line.Body = w.Code, w.Body.Bytes()
			if media == manyAsks {
				if err := json.Unmarshal(w.Body.Bytes(), &line); err != nil {
					t.Fatal(err)
				}
			}
			var a Answer
			var members map[string]any
			if json.Unmarshal(line.Body, &a) != nil || json.Unmarshal(line.Body, &members) != nil {
				t.Fatalf("%s: %s is not JSON", action, line.Body)
			}
			for _, name := range []string{"verdict", "allowed", "id", "type", "title", "status", "detail"} {
				if _, ok := members[name]; !ok {
					t.Errorf("%s: %s has no %s", action, line.Body, name)
				}
			}
			if line.Status != status[action] || a.Status != line.Status || a.Allowed != (line.Status == 200) || a.Verdict == nil || a.Verdict.ID != v.ID || a.ID != got.ID || a.Detail != v.Message || (a.Hint != "") != a.Allowed {
				t.Errorf("%s: %d %+v", action, line.Status, a)
			}
			if !strings.HasPrefix(a.ID, "check-") || got.Time != events.StampOf(heldAt) {
				t.Errorf("%s is asked with %+v", action, got)
			}
		}
	}
}

// TestKey names checks by a header.
func TestKey(t *testing.T) {
	const call = `"kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"}}`
	f := func(key, media, body, want, fault string) {
		t.Helper()
		var ids []string
		h := &Handler{Check: func(asks []*Request) {
			for _, q := range asks {
				ids = append(ids, q.Event.ID)
				q.Verdict = &events.Verdict{ID: "v", Mode: "enforce", Action: "allow", Reason: "allowed"}
			}
		}, Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(text(err.Error()))
		}, Now: func() time.Time { return heldAt }}
		r := httptest.NewRequest("POST", "/v1/check", strings.NewReader(body))
		r.Header.Set(KeyHeader, key)
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := strings.Join(ids, " "); got != want || !strings.Contains(w.Body.String(), fault) {
			t.Errorf("%q names %q, want %q: %s", key, got, want, w.Body)
		}
	}
	f("k1", "application/json", "{"+call, "k1", "")
	f(`"k1"`, "", "{"+call, "k1", "")
	f("k1", "", `{"id":"k1",`+call, "k1", "")
	f("k1", "", `{"id":"k2",`+call, "", "send one of them")
	f("k1", manyAsks, "{"+call+"\n\n{"+call, "k1-1 k1-2", "")
	f("k1", manyAsks, `{"id":"own",`+call+"\n{"+call, "own k1-2", "")
	for _, bad := range []string{"a b", "ä", `a"b`, `""`, strings.Repeat("x", mostKey+1)} {
		f(bad, "", "{"+call, "", "not usable")
	}
}
