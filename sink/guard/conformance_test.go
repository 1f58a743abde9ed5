package guard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	"weir/events/fingerprint"
	"weir/sink/guard/guardtest"
	"weir/sink/sign"
)

// conformanceCase is a row of the table that the guards of all languages are held to.
type conformanceCase struct {
	Name       string            `json:"name"`
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

func conformanceCases(t *testing.T) (cases []conformanceCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		cases[i].Now = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	}
	return cases
}

// told is a decision as the table writes it.
func told(d *Decision) map[string]any {
	said := map[string]any{"action": string(d.Action), "source": d.Source.String()}
	put := func(name, value string) {
		if value != "" {
			said[name] = value
		}
	}
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
			t.Run("weir", func(t *testing.T) { follows(t, l.name, command) })
			t.Run("signed", func(t *testing.T) { followsSigned(t, command) })
			t.Run("full", func(t *testing.T) { readsAgain(t, command) })
			t.Run("reports", func(t *testing.T) { reports(t, command) })
			t.Run("unseen", func(t *testing.T) { neverSeen(t, command) })
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
	f.decided("ask", call, "allow", "weir")
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
	in  io.WriteCloser
	out *bufio.Scanner
	run *exec.Cmd
}

func (f *foreign) do(command map[string]any) (answer map[string]any) {
	f.Helper()
	text, _ := json.Marshal(command)
	if _, err := f.in.Write(append(text, '\n')); err != nil {
		f.Fatal(err)
	}
	if !f.out.Scan() {
		f.Fatal("the guard ended: ", f.out.Err())
	}
	if err := json.Unmarshal(f.out.Bytes(), &answer); err != nil {
		f.Fatal(err)
	}
	return answer
}

// until asks for the state until it has the values.
func (f *foreign) until(want map[string]any) {
	f.Helper()
	for {
		got := f.do(map[string]any{"do": "state"})
		for name := range got {
			if _, ok := want[name]; !ok {
				delete(got, name)
			}
		}
		if maps.Equal(got, want) {
			return
		}
		if err := f.Context().Err(); err != nil {
			f.Fatalf("got %v, want %v: %v", got, want, err)
		}
	}
}

func (f *foreign) decided(how string, call map[string]any, action, source string) map[string]any {
	f.Helper()
	d := f.do(map[string]any{"do": how, "call": call})
	if d["action"] != action || d["source"] != source {
		f.Errorf("%s %v: %v, want %s by %s", how, call, d, action, source)
	}
	return d
}

// begin starts a guard of another language that follows a weir.
func begin(t *testing.T, weir *guardtest.Weir, command []string, more ...string) *foreign {
	t.Helper()
	server := httptest.NewServer(weir)
	t.Cleanup(server.Close)
	t.Cleanup(func() { weir.Set(guardtest.Away) }) // so that streams end
	run := exec.CommandContext(t.Context(), command[0], slices.Concat(command[1:], []string{server.URL}, more)...)
	run.Stderr = os.Stderr
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	return &foreign{t, in, bufio.NewScanner(out), run}
}

// end lets the guard send what it has to say, and ends it.
func (f *foreign) end() {
	f.Helper()
	_ = f.in.Close()
	if err := f.run.Wait(); err != nil {
		f.Error(err)
	}
}

// followsSigned runs a guard that has keys against a weir that signs, one that does not,
// one that has other keys, and one that says old things again.
func followsSigned(t *testing.T, command []string) {
	weir, file := guardtest.New(), filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("k2 fedcba9876543210fedcba9876543210\nk1 0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := sign.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	weir.SetKeys(keys[1:])
	stop := func(flow string) events.Verdict {
		return events.Verdict{CorrelationID: flow, Action: "deny", Reason: events.SelfCall}
	}
	weir.Give(stop("f"))
	f := begin(t, weir, command, fmt.Sprintf(`{"keys":%q}`, file))
	f.until(map[string]any{"stale": false, "orders": 1.0})
	f.decided("check", map[string]any{"flow": "f", "from": "a", "to": "b"}, "deny", "table")
	weir.SetKeys(keys)
	weir.Give(events.Verdict{CorrelationID: "f", Action: "allow", Reason: events.SelfCall})
	f.until(map[string]any{"orders": 2.0})
	weir.Repeat(0)
	f.until(map[string]any{"replayed": 1.0})
	weir.SetKeys(nil)
	weir.Give(stop("g"))
	f.until(map[string]any{"unsigned": 1.0})
	weir.SetKeys(sign.Keys{{ID: "k1", Secret: []byte("another secret, not that of k1...")}})
	weir.Give(stop("g"))
	f.until(map[string]any{"forged": 1.0, "orders": 2.0})
	for _, flow := range []string{"f", "g"} {
		f.decided("check", map[string]any{"flow": flow, "from": "a", "to": "b"}, "allow", "table")
	}
	f.end()
}

// follows runs a guard against a weir that goes away and comes back.
func follows(t *testing.T, name string, command []string) {
	weir := guardtest.New()
	weir.SetLimits(`{"max_total_calls":{"max":7},"call_rate_per_flow":{"max":60,"window":"1m"}}`)
	left := []events.Remaining{{RuleID: "max_cost_usd", Left: 0.5, Limit: 5, Unit: events.UnitUSD, Forecast: &events.Forecast{Runs: 25, Low: 4.6, Expected: 7.5, High: 40}},
		{RuleID: "max_total_tokens", Left: 5, Limit: 10, Unit: events.UnitTokens, Forecast: &events.Forecast{Runs: 7}},
		{RuleID: "max_flow_duration", Left: 50, Limit: 60, Unit: events.UnitSeconds, Until: events.RFC3339(1795183260_500)}}
	limit, observed := 10.0, 11.0
	answers := map[string]*events.Verdict{
		"denied": {ID: "d", Mode: events.ModeEnforce, Action: "deny", Reason: events.MaxTotalCalls, Limit: &limit, Observed: &observed, HTTPStatus: 429, Message: "no", AgentMessage: "n", Remaining: left},
		"told":   {ID: "t", Mode: events.ModeEnforce, Action: "allow", Reason: "allowed", AgentMessage: "wrap up", Remaining: left},
		"warned": {ID: "w", Mode: events.ModeEnforce, Action: "warn", Reason: events.MaxTotalCalls, AgentMessage: "wrap up", Remaining: left},
	}
	weir.Answer(func(ev *events.Event) *events.Verdict {
		v := answers[ev.To.Agent]
		if v == nil || ev.Tell {
			return v
		}
		untold := *v
		untold.Remaining = nil
		return &untold
	})
	f := begin(t, weir, command)
	ab := map[string]any{"flow": "f", "from": "a", "to": "b"}
	f.until(map[string]any{"stale": false, "bounds": 7.0})
	f.decided("check", ab, "allow", "table")
	weir.Give(events.Verdict{CorrelationID: "f", Action: "deny", Reason: events.SelfCall})
	f.until(map[string]any{"orders": 1.0})
	f.decided("check", ab, "deny", "table")
	f.decided("check", map[string]any{"flow": "g", "from": "a", "to": "b"}, "allow", "table")
	f.decided("ask", ab, "allow", "weir")
	if d := f.decided("ask", map[string]any{"flow": "f", "from": "a", "to": "denied"}, "deny", "weir"); d["observed"] != 11.0 || d["verdict_id"] != "d" || d["message"] != "no" {
		t.Errorf("refused with %v", d)
	}
	for to, action := range map[string]string{"denied": "deny", "told": "allow", "warned": "warn"} {
		d := f.decided("ask", map[string]any{"flow": "f", "from": "a", "to": to, "tell": true}, action, "weir")
		want := []any{[]any{"max_cost_usd", 0.5, 5.0, "usd", 0.0, []any{25.0, 4.6, 7.5, 40.0}}, []any{"max_total_tokens", 5.0, 10.0, "tokens", 0.0, []any{7.0, 0.0, 0.0, 0.0}}, []any{"max_flow_duration", 50.0, 60.0, "s", 1795183260.5, 0.0}}
		if note, _ := d["note"].(string); !reflect.DeepEqual(d["left"], want) || (note == "wrap up") != (to != "denied") {
			t.Errorf("%s: left %v, note %q; want %v", to, d["left"], note, want)
		}
	}
	f.do(map[string]any{"do": "release", "flow": "f"})

	weir.Set(guardtest.Behind)
	f.until(map[string]any{"stale": true})
	weir.Set(guardtest.Up)
	f.until(map[string]any{"stale": false})

	weir.Set(guardtest.Mute)
	f.until(map[string]any{"stale": true})
	if d := f.decided("check", ab, "deny", "table"); d["stale"] != true {
		t.Errorf("an old order: %v", d)
	}
	f.decided("ask", map[string]any{"flow": "h", "from": "a", "to": "b"}, "allow", "stale_open")
	f.decided("ask", ab, "deny", "table")
	weir.Set(guardtest.Up)
	weir.Give(events.Verdict{CorrelationID: "f", Action: "allow", Reason: events.SelfCall})
	f.until(map[string]any{"stale": false, "orders": 2.0})
	f.decided("check", ab, "allow", "table")
	weir.SetFull(true)
	f.decided("ask", ab, "allow", "stale_open")
	weir.SetFull(false)
	f.end()
	kinds, seen := map[events.Kind]int{}, map[string]bool{}
	for _, ev := range weir.Reports() {
		if seen[ev.ID] {
			continue // sent again, because the answer took too long
		}
		seen[ev.ID] = true
		kinds[ev.Kind]++
		if ev.Kind == events.VerdictAck && (ev.Ack.VerdictID != "v-0" || !ev.Ack.Applied || ev.CorrelationID != "f" || ev.From.Agent != "a" || ev.Source != name) {
			t.Errorf("acknowledged %+v of %+v", ev.Ack, ev)
		}
		if ev.Kind == events.OperatorRelease && (ev.Operator.By != "ann" || ev.Operator.For != time.Minute) {
			t.Errorf("released by %+v", ev.Operator)
		}
	}
	if want := map[events.Kind]int{events.VerdictAck: 3, events.OperatorRelease: 1}; !maps.Equal(kinds, want) {
		t.Errorf("reported %v, want %v", kinds, want)
	}
}

// readsAgain leaves orders out for want of room, and reads them again when others have been cleared:
// they refuse calls then, and the guard is fresh.
func readsAgain(t *testing.T, command []string) {
	weir := guardtest.New()
	f := begin(t, weir, command, `{"most_orders":4}`)
	order := func(n int, action events.Action) {
		weir.Give(events.Verdict{CorrelationID: fmt.Sprint("f", n), Action: action, Reason: events.SelfCall})
	}
	f.until(map[string]any{"stale": false})
	for n := range 6 {
		order(n, "deny")
	}
	f.until(map[string]any{"stale": true, "orders": 4.0})
	f.decided("check", map[string]any{"flow": "f4", "from": "a", "to": "b"}, "allow", "stale_open")
	order(0, "allow")
	order(1, "allow")
	f.until(map[string]any{"stale": false})
	for n := range 6 {
		action := "deny"
		if n < 2 {
			action = "allow"
		}
		f.decided("check", map[string]any{"flow": fmt.Sprint("f", n), "from": "a", "to": "b"}, action, "table")
	}
	f.end()
}

// reports begins calls and finishes them: weir hears of each call and its result once, with their
// hashes, and a check comes after the reports about its flow.
func reports(t *testing.T, command []string) {
	weir := guardtest.New()
	early := 0
	weir.Answer(func(ev *events.Event) *events.Verdict {
		if ev.Tool.Name == "forbidden" {
			return &events.Verdict{ID: "v", Mode: events.ModeEnforce, Action: "deny", Reason: events.SelfCall, HTTPStatus: 403}
		}
		if n := len(weir.Reports()); ev.Tool.Name == "search" && n < early {
			t.Errorf("a check came after %d reports, want %d", n, early)
		}
		early++
		return nil
	})
	f := begin(t, weir, command)
	f.until(map[string]any{"stale": false})
	search := map[string]any{"flow": "f", "from": "a", "tool": "search"}
	for range 5 {
		f.do(map[string]any{"do": "begin", "call": search, "arguments": map[string]any{"b": 1, "a": 2.0}, "result": "found call_bb923d07ce"})
	}
	f.do(map[string]any{"do": "begin", "call": map[string]any{"flow": "f", "from": "a", "tool": "forbidden"}, "arguments": "{}", "result": "none"})
	f.do(map[string]any{"do": "begin", "call": map[string]any{"flow": "g", "from": "a", "to": "b"}, "message": "do it", "error": "no way", "tokens": 9})
	f.do(map[string]any{"do": "begin", "call": map[string]any{"flow": "h", "from": "a", "tool": "memory"}, "arguments": "[1]", "ask": false, "result": ""})
	f.do(map[string]any{"do": "spent"})
	f.end()

	asks := weir.Asks()
	if len(asks) != 7 || !asks[0].Ask || asks[0].Tool.ArgsHash != fingerprint.Args([]byte(`{"a":2,"b":1}`), nil) || asks[0].Tool.ArgsSim != fingerprint.ArgsText([]byte(`{"a":2,"b":1}`)) || asks[6].Content != fingerprint.Content([]byte("do it")) {
		t.Errorf("asked %+v", asks)
	}
	got := map[string]int{}
	for _, ev := range weir.Reports() {
		got[fmt.Sprintf("%s %s %s %s>%s", ev.Kind, ev.CorrelationID, ev.Tool.Name, ev.From.Agent, ev.To.Agent)]++
		switch {
		case ev.Kind == events.ToolResult && ev.Tool.Name == "search":
			if ev.Content != fingerprint.Content([]byte("found call_00000000")) || ev.Sim != fingerprint.Text([]byte("found call_bb923d07ce")) || ev.Status != events.StatusOK || ev.Tool.ResultSize != 21 || ev.Tool.CallID == "" || !ev.Tool.ArgsSim.IsZero() {
				t.Errorf("a result was reported as %+v", ev)
			}
		case ev.Kind == events.AgentReturn:
			if ev.Status != events.StatusError || ev.ErrorType == "" || ev.Content != fingerprint.Content([]byte("no way")) || ev.Usage.Input != 9 || ev.Usage.Scope != events.UsageAggregate {
				t.Errorf("an answer was reported as %+v", ev)
			}
		case ev.Kind == events.LLMCall:
			want := events.Usage{Known: true, Input: 7, Output: 3, CacheRead: 6, CacheCreation: 5, CacheHour: 4, Reasoning: 2, CacheInInput: events.No, CostMicroUSD: 500_000}
			if ev.Usage != want || ev.Model != "m" {
				t.Errorf("a request was reported as %+v", ev)
			}
		}
	}
	want := map[string]int{"tool.result f search a>": 5, "agent.return g  b>a": 1, "tool.call h memory a>": 1, "tool.result h memory a>": 1, "llm.call f  a>": 1}
	if !maps.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

// neverSeen checks flows of which weir has no event, and closes the guard: it logs one of them, and
// none whose calls weir got.
func neverSeen(t *testing.T, command []string) {
	weir := guardtest.New()
	f := begin(t, weir, command)
	f.until(map[string]any{"stale": false})
	of := func(do, flow string) {
		f.do(map[string]any{"do": do, "call": map[string]any{"flow": flow, "from": "a", "to": "b"}})
	}
	of("ask", "asked")
	for range 3 {
		of("check", "asked")
		of("check", "unknown 1/2")
		of("check", "unknown 2")
	}
	logged, _ := json.Marshal(f.do(map[string]any{"do": "close"})["logged"])
	if text := string(logged); strings.Count(text, "has never seen") != 1 || !strings.Contains(text, "unknown 1/2") {
		t.Errorf("logged %s", text)
	}
	f.end()
}
