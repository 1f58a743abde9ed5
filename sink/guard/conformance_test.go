package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard/conformance"
	"weir/sink/guard/guardtest"
	"weir/sink/sign"
)

// conformanceCase is a row of the table that the guards of all languages are held to.
type conformanceCase struct {
	Name       string            `json:"name"`
	Local      string            `json:"local,omitempty"` // why weir does not play it
	Now        time.Time         `json:"now"`
	State      string            `json:"state,omitempty"` // fresh, stale, never
	FailClosed bool              `json:"fail_closed,omitempty"`
	MostOrders int               `json:"most_orders,omitempty"`
	Bounds     *boundsText       `json:"bounds,omitempty"`
	Orders     []json.RawMessage `json:"orders,omitempty"`
	Keys       map[string]string `json:"keys,omitempty"`
	Heard      []heardText       `json:"heard,omitempty"` // as they come, after the orders
	Before     []struct {
		Call  callText `json:"call"`
		Times int      `json:"times"`
		ThenS int      `json:"then_s,omitempty"`
	} `json:"before,omitempty"`
	Call callText       `json:"call"`
	Want map[string]any `json:"want"`
}

// heardText is an order with its signature.
type heardText struct {
	Order     string `json:"order"`
	Signature string `json:"signature,omitempty"`
}

type boundsText struct {
	Calls     int64   `json:"calls"`
	ToolCalls int64   `json:"tool_calls"`
	Rate      int64   `json:"rate"`
	WindowS   float64 `json:"window_s"`
}

type callText struct {
	Call
	Origin string `json:"origin,omitempty"`
}

func (c callText) call() Call {
	if c.Origin == "user" {
		c.Call.Origin = events.OriginUser
	}
	return c.Call
}

func conformanceRows(t *testing.T) []conformance.Row {
	t.Helper()
	rows, err := conformance.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// conformanceCases returns the rows about one decision.
func conformanceCases(t *testing.T) (cases []conformanceCase) {
	t.Helper()
	for _, row := range conformanceRows(t) {
		if dialogue, _ := row.Kind(); dialogue {
			continue
		}
		var c conformanceCase
		if err := row.Decode(&c); err != nil {
			t.Fatal(err)
		}
		c.Now = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
		cases = append(cases, c)
	}
	return cases
}

// told is a decision as the table writes it.
func told(d *Decision) map[string]any {
	said := map[string]any{"action": string(d.Action), "source": d.Source.String()}
	var left []any
	for _, r := range d.Remaining {
		forecast := any(0.0)
		if f := r.Forecast; f != nil {
			forecast = []any{float64(f.Runs), f.Low, f.Expected, f.High}
		}
		left = append(left, []any{r.RuleID, r.Left, r.Limit, string(r.Unit), float64(r.Until) / 1000, forecast})
	}
	if left != nil {
		said["left"] = left
	}
	put := func(name, value string) {
		if value != "" {
			said[name] = value
		}
	}
	put("note", d.Note)
	if d.Stale {
		said["stale"] = true
	}
	if !d.Stopped() {
		return said
	}
	put("reason", string(d.Reason))
	if !math.IsNaN(d.Limit) {
		said["limit"], said["observed"] = d.Limit, d.Observed
	}
	if d.RetryAfter > 0 {
		said["retry_after_s"] = d.RetryAfter.Seconds()
	}
	if until := d.HeldUntil(); !until.IsZero() {
		said["held_until"] = float64(until.Unix())
	}
	put("advice", string(d.Advice()))
	put("message", d.message())
	put("agent_message", d.agentMessage())
	if d.Verdict != nil {
		put("verdict_id", d.Verdict.ID)
	}
	return said
}

func TestConformance(t *testing.T) {
	for _, c := range conformanceCases(t) {
		o := Options{URL: "http://weir.test", Source: "guard/test", Quiet: true, FailClosed: c.FailClosed, MostOrders: c.MostOrders}
		for id, secret := range c.Keys {
			o.Keys = append(o.Keys, sign.Key{ID: id, Secret: []byte(secret)})
		}
		g, err := newGuard(o)
		if err != nil {
			t.Fatal(err)
		}
		if b := c.Bounds; b != nil {
			g.bounds.Store(&Bounds{b.Calls, b.ToolCalls, b.Rate, time.Duration(b.WindowS * float64(time.Second))})
		}
		now := c.Now
		g.now = func() time.Time { return now }
		g.state.Store(map[string]uint32{"": fresh, "fresh": fresh, "stale": stale, "never": never}[c.State])
		for _, text := range c.Orders {
			v := new(events.Verdict)
			if err := events.DecodeVerdict(text, v); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			g.table.Take(v)
		}
		for _, h := range c.Heard {
			g.take([]byte(h.Order), h.Signature)
		}
		for _, step := range c.Before {
			for range step.Times {
				g.Check(t.Context(), step.Call.call())
			}
			now = now.Add(time.Duration(step.ThenS) * time.Second)
		}
		d := g.Check(t.Context(), c.Call.call())
		got := told(&d)
		for name, n := range map[string]int64{"unsigned": g.counts.Unsigned.Load(), "forged": g.counts.Forged.Load(), "replayed": g.counts.Replayed.Load(), "unreadable": g.counts.Unreadable.Load(), "left_out": g.counts.LeftOut.Load()} {
			if n > 0 {
				got[name] = float64(n)
			}
		}
		if !reflect.DeepEqual(got, c.Want) {
			t.Errorf("%s:\n got %v\nwant %v", c.Name, got, c.Want)
		}
	}
}

// language is a guard of another language, run by its own interpreter.
type language struct {
	name    string
	command func(t *testing.T) []string // decides what comes by standard input; with an address more it follows a weir
}

func languages() []language {
	return []language{
		{"python", func(t *testing.T) []string {
			return []string{found(t, "python3"), "testdata/conformance.py", "python"}
		}},
		{"typescript", func(t *testing.T) []string {
			node := found(t, "node")
			if _, err := os.Stat(compiler); err != nil {
				t.Skip("MISSING: the TypeScript compiler; install it with: npm ci --prefix sink/guard/typescript")
			}
			module, err := compiled()
			if err != nil {
				t.Fatal(err)
			}
			return []string{node, "testdata/conformance.mjs", module}
		}},
	}
}

var compiler = filepath.Join("typescript", "node_modules", "typescript", "bin", "tsc")

// compiled is the guard of TypeScript as a module of JavaScript, compiled once for all tests.
var compiled = sync.OnceValues(func() (string, error) {
	out, err := os.MkdirTemp("", "weir-guard")
	if err != nil {
		return "", err
	}
	compiledIn = out
	if text, err := exec.Command("node", compiler, "-p", "typescript", "--outDir", out).CombinedOutput(); err != nil {
		return "", fmt.Errorf("weir-guard.ts does not compile: %v\n%s", err, text)
	}
	// What is beside it is a module of JavaScript, too.
	if err := os.WriteFile(filepath.Join(out, "package.json"), []byte(`{"type":"module"}`), 0o644); err != nil {
		return "", err
	}
	module := filepath.Join(out, "weir-guard.mjs")
	return module, os.Rename(filepath.Join(out, "weir-guard.js"), module)
})

var compiledIn string // the folder; empty before

// TestMain removes what was compiled.
func TestMain(m *testing.M) {
	code := m.Run()
	if compiledIn != "" {
		_ = os.RemoveAll(compiledIn)
	}
	os.Exit(code)
}

func found(t *testing.T, program string) string {
	if testing.Short() {
		t.Skip("guards in other languages run without -short")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("MISSING: %s; without it the guard of its language is not tested", program)
	}
	return path
}

func TestOtherLanguages(t *testing.T) {
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			t.Run("table", func(t *testing.T) { conforms(t, command) })
			t.Run("fields", func(t *testing.T) { saysEverything(t, command) })
		})
	}
}

// wholeCall is a call with a value in each field that is a name.
func wholeCall() (c Call) {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String {
			f.SetString(v.Type().Field(i).Name)
		}
	}
	c.Service, c.Principal = "", "" // which weir knows by the source and the token
	c.ArgsHash, c.ContentHash, c.ArgsSim = "xxh64:0123456789abcdef", "xxh64:1123456789abcdef", "simhash64:2123456789abcdef"
	return c
}

// TestCallSaysEverything holds that each field of a call is in the event that asks for it: verdicts
// repeat them.
func TestCallSaysEverything(t *testing.T) {
	c := wholeCall()
	ev := c.event(events.ToolCall)
	said := string(ev.AppendJSON(nil))
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.String() != "" && !strings.Contains(said, `"`+f.String()+`"`) {
			t.Errorf("%s is left out of %s", v.Type().Field(i).Name, said)
		}
	}
	if again, ok := CallOf(&ev); !ok || again.Team != c.Team || again.Project != c.Project || again.Tenant != c.Tenant || again.Task != c.Task {
		t.Errorf("of the event the call is %+v", again)
	}
}

// saysEverything holds that a guard of another language asks with the same fields.
func saysEverything(t *testing.T, command []string) {
	weir := guardtest.New()
	f := begin(t, weir, command)
	c := wholeCall()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var call map[string]any
	if err := json.Unmarshal(text, &call); err != nil {
		t.Fatal(err)
	}
	if d := f.do(map[string]any{"do": "ask", "call": call}); d["action"] != "allow" || d["source"] != "weir" {
		t.Errorf("asked: %v", d)
	}
	asks := weir.Asks()
	if len(asks) != 1 {
		t.Fatalf("%d asks", len(asks))
	}
	got, want := asks[0], c.event(events.ToolCall)
	want.Ask, want.ID, want.Source, want.Time = true, got.ID, got.Source, got.Time
	if got, want := string(got.AppendJSON(nil)), string(want.AppendJSON(nil)); got != want {
		t.Errorf("asks with\n%s\nwant\n%s", got, want)
	}
}

// conforms runs the table.
func conforms(t *testing.T, command []string) {
	cases := conformanceCases(t)
	text, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(command[0], command[1:]...)
	run.Stdin, run.Stderr = bytes.NewReader(text), os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var decisions []map[string]any
	if err := json.Unmarshal(out, &decisions); err != nil || len(decisions) != len(cases) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, c := range cases {
		if !reflect.DeepEqual(decisions[i], c.Want) {
			t.Errorf("%s:\n got %v\nwant %v", c.Name, decisions[i], c.Want)
		}
	}
}

// foreign talks to a guard of another language that follows a weir.
type foreign struct {
	*testing.T
	program *conformance.Program
}

func (f *foreign) do(command map[string]any) map[string]any {
	f.Helper()
	return f.program.Do(f, command)
}

// begin starts a guard of another language that follows a weir.
func begin(t *testing.T, weir *guardtest.Weir, command []string, more ...string) *foreign {
	t.Helper()
	server := httptest.NewServer(weir)
	t.Cleanup(server.Close)
	t.Cleanup(func() { weir.Set(guardtest.Away) }) // so that streams end
	return &foreign{t, conformance.Begin(t, command[0], slices.Concat(command, []string{server.URL}, more)...)}
}

// end lets the guard send what it has to say, and ends it.
func (f *foreign) end() {
	f.Helper()
	f.program.End(f)
}
