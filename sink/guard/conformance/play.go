package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// Dialogue is a row about a weir: what it answers to checks, one after the other. In its steps, "$" stands before each
// name, and a player puts a word of its own there, so that players share a weir.
type Dialogue struct {
	Name    string   `json:"name"`
	Without []string `json:"without"` // transports that cannot play it
	Limits  string   `json:"limits"`  // a limits file
	Steps   []Step   `json:"steps"`
}

// Step is one step of a dialogue. It has one of the members up to Steps.
type Step struct {
	Ask      json.RawMessage `json:"ask,omitempty"`      // a check of a call, by the names that guards use
	Event    json.RawMessage `json:"event,omitempty"`    // a check as an event, which guards cannot send
	Together []Step          `json:"together,omitempty"` // checks at one time, whose answers come in any order
	Report   json.RawMessage `json:"report,omitempty"`   // an event that is reported
	Post     string          `json:"post,omitempty"`     // a path to which an operator posts Body
	Delete   string          `json:"delete,omitempty"`   // a path of what an operator deletes, with Body
	Steps    []Step          `json:"steps,omitempty"`

	Body  json.RawMessage `json:"body,omitempty"`
	Times int             `json:"times,omitempty"` // 0: once
	Until bool            `json:"until,omitempty"` // a check is repeated until its answer is the one that is wanted
	Want  map[string]any  `json:"want,omitempty"`  // of each answer
}

// EachDialogues calls fn with the dialogues that a weir plays, for each limits in parallel.
func EachDialogues(t *testing.T, fn func(t *testing.T, limits string, dialogues []Dialogue)) {
	t.Parallel()
	byLimits, err := dialogues()
	if err != nil {
		t.Fatal(err)
	}
	for limits, dialogues := range byLimits {
		t.Run(fmt.Sprint(len(limits)), func(t *testing.T) {
			t.Parallel()
			fn(t, limits, dialogues)
		})
	}
}

// dialogues returns the dialogues that a weir plays, by their limits.
func dialogues() (map[string][]Dialogue, error) {
	rows, err := Rows()
	byLimits := make(map[string][]Dialogue)
	for _, row := range rows {
		if dialogue, local := row.Kind(); !dialogue || local {
			continue
		}
		var d Dialogue
		if err := row.Decode(&d); err != nil {
			return nil, err
		}
		byLimits[d.Limits] = append(byLimits[d.Limits], d)
	}
	return byLimits, err
}

// Check is one check request.
type Check struct {
	Call map[string]any // as guards write it; nil if they cannot
	Line []byte         // the event
}

// Transport is a way to check calls.
type Transport interface {
	// Name is that of the way, as in Dialogue.Without.
	Name() string
	// Check sends checks at one time and returns the answer to each, with the members that guards report of a
	// decision. From HTTP an answer also has the member "status", and "scope" that of the order.
	Check(t testing.TB, url string, checks []Check) []map[string]any
}

// Weir is a weir that plays.
type Weir struct {
	URLs  []string // of its members, which are used in turn
	Token string   // of an operator
	// Give puts a verdict that is about all flows into the log, and returns when each member knows it.
	Give func(verdict string)
	// Now is the time of the log. Runs says that it goes on while a decision is played.
	Now  func() time.Time
	Runs bool

	heard map[string][]string // answers of the first transport, by dialogue
}

// Player plays a dialogue by one transport. In the middle of it, another process may take the place of its weir.
type Player struct {
	*player
	dialogue *Dialogue
}

// player plays rows by one transport.
type player struct {
	testing.TB
	*Weir
	way    Transport
	prefix string // in place of each "$"
	turn   int    // of the members
	made   int    // ids
	heard  []string
}

// Play plays a dialogue. No other player of this weir may have the same word.
func (w *Weir) Play(t testing.TB, d *Dialogue, way Transport, word string) {
	t.Helper()
	p := w.Player(t, d, way, word)
	p.First()
	p.Rest()
}

// Player returns a player of a dialogue. No other player of this weir may have the same word.
func (w *Weir) Player(t testing.TB, d *Dialogue, way Transport, word string) *Player {
	if slices.Contains(d.Without, way.Name()) {
		d = &Dialogue{Name: d.Name}
	}
	return &Player{&player{TB: t, Weir: w, way: way, prefix: word}, d}
}

// First plays the first half of the dialogue.
func (p *Player) First() {
	p.Helper()
	p.play(0, len(p.dialogue.Steps)/2)
}

// Rest plays the second half, and compares all answers with those that the first player of the dialogue got.
func (p *Player) Rest() {
	p.Helper()
	p.play(len(p.dialogue.Steps)/2, len(p.dialogue.Steps))
	name := p.dialogue.Name
	if !slices.ContainsFunc(p.heard, func(answer string) bool { return strings.Contains(answer, `"status":`) }) {
		return // a guard does not report all that HTTP says
	}
	if p.Weir.heard == nil {
		p.Weir.heard = make(map[string][]string)
	}
	if before := p.Weir.heard[name]; before == nil {
		p.Weir.heard[name] = p.heard
	} else if at := differ(before, p.heard); at >= 0 && !p.Failed() {
		p.Errorf("%s: answer %d by %s is %s, and was %s to another player", name, at, p.prefix, p.heard[at], before[at])
	}
}

func (p *Player) play(from, to int) {
	p.Helper()
	for i := from; i < to; i++ {
		p.step(fmt.Sprintf("%s, by %s: step %d", p.dialogue.Name, p.prefix, i), &p.dialogue.Steps[i])
	}
}

// differ returns the first place where two lists differ, -1 if they are equal.
func differ(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// text puts the word of the player into a part of the data.
func (p *player) text(part []byte) []byte {
	return []byte(strings.ReplaceAll(string(part), "$", p.prefix))
}

// url is that of the next member.
func (p *player) url() string {
	p.turn++
	return p.URLs[p.turn%len(p.URLs)]
}

func (p *player) step(at string, s *Step) {
	p.Helper()
	switch {
	case s.Steps != nil:
		for n := range max(1, s.Times) {
			for i := range s.Steps {
				p.step(fmt.Sprintf("%s, %d.%d", at, n, i), &s.Steps[i])
			}
		}
	case s.Together != nil:
		p.together(at, s.Together)
	case s.Until:
		p.until(at, s)
	case s.Ask != nil || s.Event != nil:
		for range max(1, s.Times) {
			p.together(at, []Step{{Ask: s.Ask, Event: s.Event, Want: s.Want}})
		}
	case s.Report != nil:
		for range max(1, s.Times) {
			p.request(at, http.MethodPost, "/v1/events", p.line(s.Report))
		}
	case s.Post != "":
		p.request(at, http.MethodPost, string(p.text([]byte(s.Post))), p.text(s.Body))
	case s.Delete != "":
		p.request(at, http.MethodDelete, string(p.text([]byte(s.Delete))), p.text(s.Body))
	default:
		p.Fatalf("%s: %+v is no step", at, s)
	}
}

// line is an event, with an id if it has none.
func (p *player) line(part []byte) []byte {
	var ev map[string]any
	if err := json.Unmarshal(p.text(part), &ev); err != nil {
		p.Fatalf("%s: %v", part, err)
	}
	return p.identified(ev)
}

func (p *player) identified(ev map[string]any) []byte {
	if ev["id"] == nil {
		p.made++
		ev["id"] = fmt.Sprint(p.prefix, "id-", p.made)
	}
	if ev["source"] == nil {
		ev["source"] = "conformance"
	}
	line, err := json.Marshal(ev)
	if err != nil {
		p.Fatal(err)
	}
	return line
}

// together sends checks at one time and compares their answers, in any order.
func (p *player) together(at string, steps []Step) {
	p.Helper()
	var checks []Check
	var wants []map[string]any
	for i := range steps {
		for range max(1, steps[i].Times) {
			checks, wants = append(checks, p.check(&steps[i])), append(wants, steps[i].Want)
		}
	}
	answers := p.way.Check(p, p.url(), checks)
	if len(answers) != len(checks) {
		p.Fatalf("%s: %d answers to %d checks", at, len(answers), len(checks))
	}
	var heard []string
	for _, got := range answers {
		got = p.plain(got)
		heard = append(heard, comparable(got))
		found := slices.IndexFunc(wants, func(want map[string]any) bool { return Holds(visible(want, got), got) })
		if found < 0 {
			p.Errorf("%s: got %v, want one of %v", at, got, wants[:min(3, len(wants))])
			continue
		}
		wants = slices.Delete(wants, found, found+1)
	}
	slices.Sort(heard) // checks at one time are judged in any order
	p.heard = append(p.heard, heard...)
}

// until repeats a check, for at most a minute: what crosses flows is known a moment later. A check of
// a flow is repeated in another flow, because the limits of one would end it.
func (p *player) until(at string, s *Step) {
	p.Helper()
	n := 0
	p.wait(func() (string, bool) {
		c := p.check(s)
		if flow := c.Call["flow"]; flow != nil && n > 0 {
			c.Call["flow"] = fmt.Sprint(flow, ".", n)
			c.Line = p.identified(EventOf(c.Call))
		}
		n++
		got := p.plain(p.way.Check(p, p.url(), []Check{c})[0])
		return fmt.Sprintf("%s: got %v, want %v", at, got, s.Want), Holds(visible(s.Want, got), got)
	})
}

// wait looks again and again, for at most a minute, whether something holds. The text says what is there instead.
func (p *player) wait(holds func() (instead string, ok bool)) {
	p.Helper()
	late, pause := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer pause.Stop()
	for {
		instead, ok := holds()
		if ok {
			return
		}
		select {
		case <-pause.C:
		case <-late:
			p.Fatal(instead)
		}
	}
}

// comparable is what has to be equal of an answer by all transports. An order about many flows is applied by the flow or
// by what counts them, whichever knows it first, and the two word it differently.
func comparable(got map[string]any) string {
	got = maps.Clone(got)
	delete(got, "verdict_id")
	if got["retry_after_s"] != nil {
		got["retry_after_s"] = "any"
	}
	if scope := got["scope"]; scope != "flow" && scope != "pair" && scope != "session" {
		delete(got, "message")
		delete(got, "agent_message")
	}
	text, _ := json.Marshal(got) // what was decoded from JSON can be encoded
	return string(text)
}

// check is the request of a step.
func (p *player) check(s *Step) Check {
	if s.Event != nil {
		return Check{Line: p.event(s.Event)}
	}
	var call map[string]any
	if err := json.Unmarshal(p.text(s.Ask), &call); err != nil {
		p.Fatalf("%s: %v", s.Ask, err)
	}
	return Check{Call: call, Line: p.identified(EventOf(call))}
}

// event is a check as an event. One that is a text is sent as it is.
func (p *player) event(part []byte) []byte {
	var raw string
	if json.Unmarshal(part, &raw) == nil {
		return p.text([]byte(raw))
	}
	return p.line(part)
}

// visible is what is wanted of an answer that a guard reports: it does not say all that HTTP says.
func visible(want, got map[string]any) map[string]any {
	if got["status"] != nil {
		return want
	}
	want = maps.Clone(want)
	for _, name := range []string{"status", "scope"} {
		delete(want, name)
	}
	return want
}

// plain is an answer without the word of the player, and with whether it allows the call.
func (p *player) plain(got map[string]any) (out map[string]any) {
	text, err := json.Marshal(got)
	if err != nil {
		p.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), p.prefix, "$")), &out); err != nil {
		p.Fatal(err)
	}
	if action, ok := out["action"].(string); ok {
		out["allowed"] = !events.Action(action).Stops()
	}
	return out
}

// request sends a request of an operator to the next member.
func (p *player) request(at, method, path string, body []byte) {
	p.Helper()
	if status, text := p.send(p.url(), method, path, string(body)); status >= 300 {
		p.Errorf("%s: %s %s: %d %s", at, method, path, status, text)
	}
}

// send sends a request with the token.
func (p *player) send(url, method, path, body string) (status int, answer string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
