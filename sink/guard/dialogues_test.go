package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard/conformance"
	"weir/sink/guard/guardtest"
	"weir/sink/sign"
)

// dialogue is a row of the table about a guard that follows a weir, which changes meanwhile.
type dialogue struct {
	Name       string                     `json:"name"`
	Local      string                     `json:"local"` // why weir does not play it
	Keys       []signingKey               `json:"keys"`  // the guard has these, and weir signs by Signs
	Signs      []signingKey               `json:"signs"`
	Limits     json.RawMessage            `json:"limits"` // rules as weir sends them
	MostOrders int                        `json:"most_orders"`
	Answers    map[string]json.RawMessage `json:"answers"` // verdicts on calls of this agent or tool; without what is left if the guard does not ask for it
	Steps      []map[string]any           `json:"steps"`
	// InOrder is a tool: a check of it comes after the reports about the calls before it.
	InOrder  string `json:"in_order"`
	Asked    []said `json:"asked"`    // in this order; nil: any
	Reported []said `json:"reported"` // in any order; nil: any
}

type signingKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func keysOf(list []signingKey) (keys sign.Keys) {
	for _, k := range list {
		keys = append(keys, sign.Key{ID: k.ID, Secret: []byte(k.Secret)})
	}
	return keys
}

// said are events with these members.
type said struct {
	Times   int            `json:"times"` // 0: once
	Without []string       `json:"without"`
	Event   map[string]any `json:"event"`
}

// TestDialogues plays the dialogues of the table with the guard of each language.
func TestDialogues(t *testing.T) {
	var dialogues []dialogue
	for _, row := range conformanceRows(t) {
		if is, local := row.Kind(); is && local { // the others are about a weir
			var d dialogue
			if err := row.Decode(&d); err != nil {
				t.Fatal(err)
			}
			dialogues = append(dialogues, d)
		}
	}
	if len(dialogues) < 5 {
		t.Errorf("only %d dialogues", len(dialogues))
	}
	for _, l := range append([]language{{"go", func(*testing.T) []string { return nil }}}, languages()...) {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			for i := range dialogues {
				t.Run(strings.ReplaceAll(dialogues[i].Name, " ", "_"), func(t *testing.T) {
					t.Parallel()
					dialogues[i].play(t, l.name, command)
				})
			}
		})
	}
}

// player plays a dialogue.
type player struct {
	*testing.T
	*dialogue
	language string
	weir     *guardtest.Weir
	guard    driven
}

// play plays the dialogue with a guard; without a command it is that of Go.
func (d *dialogue) play(t *testing.T, language string, command []string) {
	p := &player{T: t, dialogue: d, language: language, weir: guardtest.New()}
	if d.Limits != nil {
		p.weir.SetLimits(string(d.Limits))
	}
	p.weir.SetKeys(keysOf(d.Signs))
	p.answer()
	words, _ := json.Marshal(map[string]any{"keys": p.keyFile(), "most_orders": cmp.Or(d.MostOrders, 1000)})
	if command == nil {
		own := nativeOf(t, string(words))
		server := httptest.NewServer(p.weir)
		t.Cleanup(server.Close)
		t.Cleanup(func() { p.weir.Set(guardtest.Away) }) // so that streams end
		own.open(server.URL)
		p.guard = own
	} else {
		p.guard = begin(t, p.weir, command, string(words))
	}
	for i, step := range d.Steps {
		p.step(fmt.Sprintf("step %d", i), maps.Clone(step))
	}
	p.awaitReports(d.Reported)
	p.guard.end()
	p.compare("asked", d.Asked, true, p.weir.Asks())
	p.compare("reported", d.Reported, false, p.weir.Reports())
}

// keyFile is a file with the keys of the guard; "" without any.
func (p *player) keyFile() string {
	if len(p.Keys) == 0 {
		return ""
	}
	var text strings.Builder
	for _, k := range p.Keys {
		fmt.Fprintln(&text, k.ID, k.Secret)
	}
	file := filepath.Join(p.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		p.Fatal(err)
	}
	return file
}

// answer has weir answer checks.
func (p *player) answer() {
	verdicts := map[string]*events.Verdict{}
	for name, text := range p.Answers {
		verdicts[name] = p.verdict(text)
	}
	var allowed atomic.Int64 // checks come side by side
	p.weir.Answer(func(ev *events.Event) *events.Verdict {
		v := verdicts[ev.To.Agent+ev.Tool.Name]
		if v != nil && v.Stops() {
			return withoutRest(v, ev)
		}
		if n := len(p.weir.Reports()); p.InOrder != "" && ev.Tool.Name == p.InOrder && n < int(allowed.Load()) {
			p.Errorf("a check came after %d reports, want %d", n, allowed.Load())
		}
		allowed.Add(1)
		return withoutRest(v, ev)
	})
}

func withoutRest(v *events.Verdict, ev *events.Event) *events.Verdict {
	if v == nil || ev.Tell {
		return v
	}
	untold := *v
	untold.Remaining = nil
	return &untold
}

func (p *player) verdict(text []byte) *events.Verdict {
	p.Helper()
	v := new(events.Verdict)
	if err := json.Unmarshal(text, v); err != nil { // much of it may be missing
		p.Fatalf("%s: %v", text, err)
	}
	return v
}

var statesOfWeir = map[string]guardtest.State{"up": guardtest.Up, "away": guardtest.Away, "mute": guardtest.Mute, "erred": guardtest.Erred, "behind": guardtest.Behind}

// step plays one step: of weir (give, repeat, sign, weir, full), of the guard (do), or waiting (until).
func (p *player) step(at string, step map[string]any) {
	p.Helper()
	text := func(name string) []byte {
		text, _ := json.Marshal(step[name])
		return text
	}
	if names, _ := step["without"].([]any); slices.Contains(names, any(p.language)) {
		return
	}
	delete(step, "without")
	switch {
	case step["give"] != nil:
		p.weir.Give(*p.verdict(text("give")))
	case step["repeat"] != nil:
		p.weir.Repeat(int(step["repeat"].(float64)))
	case step["sign"] != nil:
		var keys []signingKey
		if err := json.Unmarshal(text("sign"), &keys); err != nil {
			p.Fatal(err)
		}
		p.weir.SetKeys(keysOf(keys))
	case step["weir"] != nil:
		state, ok := statesOfWeir[step["weir"].(string)]
		if !ok {
			p.Fatalf("%s: weir cannot be %v", at, step["weir"])
		}
		p.weir.Set(state)
	case step["full"] != nil:
		p.weir.SetFull(step["full"].(bool))
	case step["until"] != nil:
		p.until(at, step["until"].(map[string]any))
	case step["do"] != nil:
		want, times := step["want"], 1
		if n, ok := step["times"].(float64); ok {
			times = int(n)
		}
		delete(step, "want")
		delete(step, "times")
		for range times {
			if got := any(p.guard.do(step)); want != nil && !conformance.Holds(want, got) {
				p.Errorf("%s, %v: got %v, want %v", at, step, got, want)
			}
		}
	default:
		p.Fatalf("%s: %v is no step", at, step)
	}
}

// until asks for the state of the guard until it has the values.
func (p *player) until(at string, want map[string]any) {
	p.Helper()
	late, pause := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		got := p.guard.do(map[string]any{"do": "state"})
		if conformance.Holds(want, got) {
			return
		}
		select {
		case <-pause.C:
		case <-late:
			p.Fatalf("%s: got %v, want %v", at, got, want)
		}
	}
}

// awaitReports waits until as many events were reported as are wanted, for at most a minute: the end of a guard
// does not wait for a request that a silent weir has not answered.
func (p *player) awaitReports(want []said) {
	n := 0
	for _, w := range want {
		if !slices.Contains(w.Without, p.language) {
			n += max(1, w.Times)
		}
	}
	late, pause := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		ids := map[string]bool{}
		for _, ev := range p.weir.Reports() {
			ids[ev.ID] = true
		}
		if len(ids) >= n {
			return
		}
		select {
		case <-pause.C:
		case <-late:
			return // compare names what is missing
		}
	}
}

// compare compares events with those that are wanted.
func (p *player) compare(how string, want []said, ordered bool, got []events.Event) {
	p.Helper()
	if want == nil {
		return
	}
	var all []map[string]any
	seen := map[string]bool{}
	for i := range got {
		if seen[got[i].ID] {
			continue // sent again, because the answer took too long
		}
		seen[got[i].ID] = true
		var ev map[string]any
		if err := json.Unmarshal(got[i].AppendJSON(nil), &ev); err != nil {
			p.Fatal(err)
		}
		if ev["source"] == p.language {
			ev["source"] = "LANGUAGE"
		}
		all = append(all, ev)
	}
	for _, w := range want {
		if slices.Contains(w.Without, p.language) {
			continue
		}
		for range max(1, w.Times) {
			at := slices.IndexFunc(all, func(ev map[string]any) bool { return conformance.Holds(w.Event, ev) })
			if at < 0 || ordered && at > 0 {
				p.Errorf("%s nothing with %v; left are %v", how, w.Event, all)
				break
			}
			all = slices.Delete(all, at, at+1)
		}
	}
	for _, ev := range all {
		p.Errorf("%s %v as well", how, ev)
	}
}
