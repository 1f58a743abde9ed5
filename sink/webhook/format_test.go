package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
)

func number(v float64) *float64 { return &v }

func held(change func(*events.Verdict)) []byte {
	v := events.Verdict{SchemaVersion: 1, ID: "0123456789abcdef-1", Time: 1_795_000_000_000, Revision: 1, Mode: events.ModeEnforce, Action: "hold",
		Scope: events.Scope{Kind: "flow", ID: "order 7's"}, Effective: events.EffectiveNow, Reason: events.MaxTotalCalls, RuleID: "max_total_calls",
		Limit: number(100), Observed: number(101), Unit: events.UnitCalls, ExpiresAt: 1_795_003_600_000, CorrelationID: "order 7's <!channel> `x`",
		From: "pla*nner", Message: "Flow held for a person to decide: total call count 101 exceeds limit (max 100)"}
	if change != nil {
		change(&v)
	}
	return v.AppendJSON(nil)
}

// receiver is an endpoint as Slack's and Teams' are seen from outside: it takes JSON of the
// shape that their documentation has, and says what is wrong with any other.
type receiver struct {
	shape func(body []byte) string
	wrong []string
	got   [][]byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	wrong := r.shape(body)
	if req.Header.Get("Content-Type") != "application/json" {
		wrong = "Content-Type"
	}
	if wrong != "" {
		r.wrong = append(r.wrong, wrong)
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	r.got = append(r.got, body)
	_, _ = io.WriteString(w, "ok")
}

// slackShape holds the limits of Block Kit.
func slackShape(body []byte) string {
	type words struct{ Type, Text string }
	var m struct {
		Text   string
		Blocks []struct {
			Type   string
			Text   *words
			Fields []words
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Text == "" || len(m.Blocks) == 0 || len(m.Blocks) > 50 {
		return "no_text"
	}
	bad := func(w words, kind string, most int) bool {
		return w.Type != kind || w.Text == "" || len([]rune(w.Text)) > most || strings.Contains(w.Text, "<")
	}
	for _, b := range m.Blocks {
		switch {
		case b.Type == "header" && (b.Text == nil || bad(*b.Text, "plain_text", 150)),
			b.Type == "section" && (b.Text == nil && len(b.Fields) == 0 || b.Text != nil && bad(*b.Text, "mrkdwn", 3000) || len(b.Fields) > 10),
			b.Type != "header" && b.Type != "section":
			return "invalid_blocks " + b.Type
		}
		for _, f := range b.Fields {
			if bad(f, "mrkdwn", 2000) {
				return "invalid field " + f.Text
			}
		}
	}
	return ""
}

// teamsShape holds the message that the trigger of Workflows takes.
func teamsShape(body []byte) string {
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  *string `json:"contentUrl"`
			Content     struct {
				Type, Version string
				Body          []struct {
					Type, Text string
					Facts      []struct{ Title, Value string }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Type != "message" || len(m.Attachments) != 1 || len(body) > 28<<10 {
		return "no message"
	}
	a := m.Attachments[0]
	if a.ContentType != "application/vnd.microsoft.card.adaptive" || a.ContentURL != nil || a.Content.Type != "AdaptiveCard" || a.Content.Version != "1.4" || len(a.Content.Body) < 2 {
		return "no card"
	}
	for _, e := range a.Content.Body {
		if e.Type == "TextBlock" && e.Text == "" || e.Type == "FactSet" && len(e.Facts) == 0 || e.Type != "TextBlock" && e.Type != "FactSet" {
			return "bad element " + e.Type
		}
	}
	return ""
}

func TestPeopleAreTold(t *testing.T) {
	long := strings.Repeat("<&*_`x", 4000)
	for _, c := range []struct {
		name    string
		verdict []byte
		told    bool
	}{
		{"held", held(nil), true},
		{"held, with everything too long", held(func(v *events.Verdict) { v.Message, v.ProjectID, v.From = long, long[:256], long[:256] }), true},
		{"held for a pattern, without figures", held(func(v *events.Verdict) { v.Unit, v.Limit, v.Observed = events.UnitRounds, nil, nil }), true},
		{"halted", held(func(v *events.Verdict) { v.Action = "halt"; v.ControlledCutoff = true }), true},
		{"halted without a flow", held(func(v *events.Verdict) { v.Action, v.CorrelationID, v.ControlledCutoff = "halt", "", true }), true},
		{"an agent that is stuck", held(func(v *events.Verdict) { v.Action, v.Effective = "notify", "" }), true},
		{"held from the next call on", held(func(v *events.Verdict) { v.Effective = events.EffectiveNext }), false},
		{"only watched", held(func(v *events.Verdict) { v.Mode = events.ModeShadow }), false},
		{"denied", held(func(v *events.Verdict) { v.Action = "deny"; v.ControlledCutoff = true }), false},
		{"warned", held(func(v *events.Verdict) { v.Action, v.Effective = "warn", "" }), false},
		{"cleared", held(func(v *events.Verdict) { v.Action, v.Effective = "allow", "" }), false},
	} {
		for format, shape := range map[Format]func([]byte) string{FormatSlack: slackShape, FormatTeams: teamsShape} {
			r := &receiver{shape: shape}
			server := httptest.NewServer(r)
			h, err := New(Options{URL: server.URL, Format: format, MostRefusals: 1, MinWait: time.Nanosecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Send(t.Context(), 1, c.verdict); err != nil {
				t.Fatal(err)
			}
			server.Close()
			if len(r.wrong) > 0 || len(r.got) == 1 != c.told {
				t.Errorf("%s, %s: told %d times, want told %v; refused: %v", format, c.name, len(r.got), c.told, r.wrong)
			}
		}
	}
}

// TestCommandsCanBePasted sees that an id of a sender's making is one word of a shell.
func TestCommandsCanBePasted(t *testing.T) {
	for id, want := range map[string]string{"order-7": "order-7", "a b": "'a b'", "x'; rm -rf ~": `'x'\''; rm -rf ~'`, "a\nb": "'a?b'", "$(id)": "'$(id)'"} {
		if got := shellWord(id); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	for unit, want := range map[events.Unit]string{events.UnitCalls: "weir flows grant --calls 20 --until 1h --reason \"WHY\" --token-file FILE f", events.UnitUSD: "weir flows grant --cost 1 --until 1h --reason \"WHY\" --token-file FILE f",
		events.UnitSeconds: "weir flows grant --duration 30m --until 1h --reason \"WHY\" --token-file FILE f", events.UnitRounds: "weir flows release --reason \"WHY\" --token-file FILE f"} {
		if got := grantCommand(unit, "f"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", unit, got)
		}
	}
}

func TestFormats(t *testing.T) {
	for i := range formatCount {
		if got, err := ParseFormat(i.String()); got != i || err != nil {
			t.Errorf("%s: %v, %v", i, got, err)
		}
	}
	if _, err := ParseFormat("discord"); err == nil || !strings.Contains(err.Error(), "verdict, slack, teams") {
		t.Error(err)
	}
	if b, err := FormatSlack.body([]byte("{"), new(incidents)); b != nil || err == nil {
		t.Errorf("%s, %v", b, err)
	}
}

// TestCommandsAreAboutOneFlow holds that whatever a flow is called, the command that a person
// pastes is about that flow: none that looks like a flag, and nothing that a terminal obeys.
func TestCommandsAreAboutOneFlow(t *testing.T) {
	for id, want := range map[string]string{
		"f-1":              "f-1",
		"--all":            "-- --all",
		"-x y":             "-- '-x y'",
		"it's":             `'it'\''s'`,
		"a\u009b2J\u202eb": "'a?2J?b'",
		"a$(reboot)":       "'a$(reboot)'",
	} {
		got := grantCommand(events.UnitCalls, shellWord(id))
		if !strings.HasSuffix(got, ` --reason "WHY" --token-file FILE `+want) {
			t.Errorf("%q gives %s", id, got)
		}
	}
}
