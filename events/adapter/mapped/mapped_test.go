package mapped

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/fingerprint"
)

// decode reads lines by a mapping and prints what matters of the events.
func decodeAll(t *testing.T, mapping string, lines ...string) string {
	t.Helper()
	f, err := Format(mapping)
	if err != nil {
		return err.Error()
	}
	a := f.New(adapter.Options{})
	var out strings.Builder
	emit := func(e *events.Event) {
		line := e.AppendJSON(nil)
		var again events.Event
		if err := events.Decode(line, &again); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		fmt.Fprintf(&out, "%v %s>%s", e.Kind, e.From.ID(), e.To.ID())
		if e.Tool.Name != "" {
			fmt.Fprintf(&out, " %s(%d)", e.Tool.Name, e.Tool.ArgsSize)
		}
		if e.Usage.Known {
			fmt.Fprintf(&out, " %d+%d", e.Usage.Input, e.Usage.Output)
		}
		if e.Status != 0 {
			fmt.Fprintf(&out, " %v%s", e.Status, strings.TrimSuffix(":"+e.ErrorType, ":"))
		}
		fmt.Fprintf(&out, " %s/%v\n", e.CorrelationID, e.CorrelationSource)
	}
	for _, line := range lines {
		if err := a.Decode([]byte(line), emit); err != nil {
			fmt.Fprintf(&out, "! %v\n", err)
		}
	}
	return out.String()
}

// TestRunsBegunAnew links runs by what their schedulers say of them: which run one repeats, and
// which one all of them go back to.
func TestRunsBegunAnew(t *testing.T) {
	f, err := Format("correlation_id=.id,parent_correlation_id=.retryOf,root_correlation_id=.first,from=.from,to=.to,baggage=.baggage")
	if err != nil {
		t.Fatal(err)
	}
	a := f.New(adapter.Options{})
	for line, want := range map[string]string{
		`{"id":"230","retryOf":null,"from":"a","to":"b"}`:                                              " ",
		`{"id":"231","retryOf":230,"from":"a","to":"b"}`:                                               "230 ",
		`{"id":"232","retryOf":"231","first":"230","from":"a","to":"b"}`:                               "231 230",
		`{"id":"233","from":"a","to":"b","baggage":"parent_correlation_id=p,root_correlation_id=top"}`: "p top",
	} {
		if err := a.Decode([]byte(line), func(e *events.Event) {
			if got := e.ParentCorrelationID + " " + e.RootCorrelationID; got != want {
				t.Errorf("%s: parent and root %q, want %q", line, got, want)
			}
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestMappings(t *testing.T) {
	f := func(mapping, want string, lines ...string) {
		t.Helper()
		if got := decodeAll(t, mapping, lines...); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("came\n%swant\n%s", got, want)
		}
	}
	record := `{"ts":1774900012100,"type":"tool_start","sender":{"id":"planner","roles":["a","b"]},"to whom":"coder","flow":7,"tool":{"name":"search","args":{"q":"x"}},"u":{"in":12,"out":3.0}}`

	f(`correlation_id=.flow,from=.sender.id,to=."to whom"`, "agent.call planner>coder 7/explicit\n", record)
	f(`correlation_id=.missing // .flow, from=.sender.roles[1], to=.["to whom"]`, "agent.call b>coder 7/explicit\n", record)
	f(`session_id=.flow,time=.ts,tool=.tool.name,args=.tool.args,from="me"`, "tool.call me> search(9) 7/session\n", record)
	f("# tools\nflow = .flow\nkind = .type\nkind.tool_start = tool.call\n\ntool = .tool.name\nfrom = .sender.id\n", "tool.call planner> search(0) 7/explicit\n", record)

	// Whatever jq can compute, digits kept.
	f(`flow=.flow,from=(.sender.roles | join(",")),to=if .ts > 1 then "x" else empty end`, "agent.call a,b>x 7/explicit\n", record)
	f(`flow=.big|tostring,to=.a`, "agent.call >x 12345678901234567890123/explicit\n", `{"big":12345678901234567890123,"a":"x"}`)
	f(`flow=.flow,to=.sender|.nothing`, "", record) // no agent, no call

	// Pairs, with and without ids; results of calls that were not logged.
	pair := []string{`{"k":"call","t":"search","a":{"q":1},"f":"f1","p":"x"}`, `{"k":"result","t":"search","r":"none","f":"f1","p":"x"}`,
		`{"k":"result","t":"search","err":"gone","f":"f1","p":"x"}`, `{"k":"note","f":"f1"}`}
	f(`flow=.f,kind=.k,kind.call=tool.call,kind.result=tool.result,tool=.t,args=.a,result=.r,error=.err,from=.p`, `
tool.call x> search(7) f1/explicit
tool.result x> search(0) ok f1/explicit
tool.call x> search(0) f1/explicit
tool.result x> search(0) error:gone f1/explicit
`, pair...)

	// Meanings, tokens, statuses.
	f(`flow=.f,kind="llm.call",from=.p,input_tokens=.u.in,output_tokens=.u.out,status=.s,status.200=ok,status.500=error`, `
llm.call x> 12+3 ok f/explicit
! invalid_value, field "status": want ok, error, denied, cancelled, timeout or input_required; say what other values mean as status.VALUE=error, found "418"
`, `{"f":"f","p":"x","u":{"in":12,"out":3},"s":200}`, `{"f":"f","p":"x","s":418}`)

	// A user is not a party that counts.
	f(`flow=.f,from=.a,to=.b`, "agent.call >x f/explicit\nagent.call x>y f/explicit\n", `{"f":"f","a":"user","b":"x"}`, `{"f":"f","a":"x","b":"y"}`)

	// What is wrong with a record.
	f(`flow=.f,to=.b,time=.t`, `
! wrong_type at byte 0: want an object here
! invalid_value, field "time": want an RFC 3339 time, or a number of seconds, ms, µs or ns since 1970, found "noon"
! syntax at byte 5: the text ends where a value is wanted
`, `[1]`, `{"f":"f","b":"x","t":"noon"}`, `{"f":`)
	// An expression that never ends costs its record, and the next one is read.
	for _, endless := range []string{`until(. == "y"; .)`, `last(repeat(1))`, `def f: f; f`, `[range(infinite)]`, `try (def f: f; f) catch "x"`, `until(. == "y"; try error catch .)`} {
		f(`flow=.f,to=if .b == "y" then .b else (.b|`+endless+`) end`,
			"! invalid_value, field \"to\": the expression has no result within 4194304 steps: does it end?\nagent.call >y f/explicit\n", `{"f":"f","b":"x"}`, `{"f":"f","b":"y"}`)
	}
	f(`flow=.f,to=.b|error("no")`, "! invalid_value, field \"to\": error: no\n", `{"f":"f"}`)
}

func TestWrongMappings(t *testing.T) {
	f := func(mapping, want string) {
		t.Helper()
		if _, err := Format(mapping); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", mapping, err, want)
		}
	}
	f("", "does not say what a flow is")
	f("from=.a,to=.b", "does not say what a flow is")
	f("flow=.a", "tells no calls")
	f("flow", `want FIELD=VALUE, such as from=.sender.id`)
	f("flow=.a,whom=.b", "there is no field whom")
	f("flow=.a,to=.b,to=.c", "to is given twice")
	f("flow=.a,to=.b[", "neither a path nor a jq expression")
	f("flow=.a,to=nosuch(1)", "function not defined")
	f("flow=.a,to=(now|tostring)", "now may not be used in mappings")
}

// TestUntimedRepeats holds that equal lines without times are lines of their own, and
// that lines with times are the same when they come again.
func TestUntimedRepeats(t *testing.T) {
	ids := func(mapping, line string) int {
		f, err := Format(mapping)
		if err != nil {
			t.Fatal(err)
		}
		a, seen := f.New(adapter.Options{}), map[string]bool{}
		for range 3 {
			if err := a.Decode([]byte(line), func(e *events.Event) { seen[e.ID] = true }); err != nil {
				t.Fatal(err)
			}
		}
		return len(seen)
	}
	const line = `{"f":"f","to":"x","t":"2026-11-20T14:00:00Z","n":4}`
	if n := ids("flow=.f,to=.to", line); n != 3 {
		t.Errorf("%d calls of three equal lines without times", n)
	}
	if n := ids("flow=.f,to=.to,time=.t", line); n != 1 {
		t.Errorf("%d calls of a line that came three times", n)
	}
	if n := ids("flow=.f,to=.to,id=.n", line); n != 1 {
		t.Errorf("%d calls of an id that came three times", n)
	}
}

// FuzzMapping holds that no mapping and no record makes the reader panic.
func FuzzMapping(f *testing.F) {
	f.Add(`correlation_id=.flow,from=.sender.id,to=."to whom"`, []byte(`{"flow":1,"to whom":"x"}`))
	f.Add(`flow=.f,kind=.k,kind.a=tool.call,tool=.t[0]//.u,args=.`, []byte(`{"f":"f","k":"a","t":["x"]}`))
	f.Fuzz(func(t *testing.T, mapping string, record []byte) {
		m, err := Format(mapping)
		if err != nil || strings.ContainsAny(mapping, "|(") {
			return // jq may double a text without end
		}
		a := m.New(adapter.Options{MaxHeld: 8})
		for range 2 {
			_ = a.Decode(record, func(e *events.Event) {
				if err := e.Validate(); err != nil {
					t.Fatalf("%s: %v", e.AppendJSON(nil), err)
				}
			})
		}
	})
}

func BenchmarkMapped(b *testing.B) {
	run := func(name, mapping string) {
		b.Run(name, func(b *testing.B) {
			f, err := Format(mapping)
			if err != nil {
				b.Fatal(err)
			}
			record := []byte(`{"ts":"2026-11-20T14:00:00Z","type":"tool_start","sender":{"id":"planner","n":1},"target":"coder","flow":"f-1","tool":{"name":"search","args":{"q":"x","limit":10}},"msg":"hello there this is a text"}`)
			a := f.New(adapter.Options{})
			for b.Loop() {
				if err := a.Decode(record, func(*events.Event) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
	run("paths", "time=.ts,kind=.type,kind.tool_start=tool.call,from=.sender.id,to=.target,flow=.flow,tool=.tool.name,args=.tool.args,content=.msg")
	run("jq", "time=.ts,kind=(.type|ascii_downcase),kind.tool_start=tool.call,from=.sender.id,to=.target,flow=.flow,tool=.tool.name,args=.tool.args,content=.msg")
}

// TestWordsOfFunctions holds that words may be data that are functions elsewhere, and that
// the functions are refused wherever they stand.
func TestWordsOfFunctions(t *testing.T) {
	f := func(expression, want string) {
		t.Helper()
		format, err := Format("flow=.f,to=.to,content=" + expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			return
		}
		var got events.Hash
		if err := format.New(adapter.Options{}).Decode([]byte(`{"f":"f","to":"x","input":"a","now":{"debug":"a"},"inputs":["a"]}`), func(e *events.Event) { got = e.Content }); err != nil {
			t.Fatal(err)
		}
		if got != fingerprint.Content([]byte(want)) {
			t.Errorf("%s: %v, want the hash of %q", expression, got, want)
		}
	}
	f(".input", "a")
	f("(.input|tostring)", "a")
	f(`(.["now"].debug|ascii_upcase)`, "A")
	f(`(.inputs|first)`, "a")
	f(`({input: .input, now: "now", "debug": 1}|.now)`, "now")
	f(`("the \(.input) of now"|tostring)`, "the a of now")
	f(`(.input as $input | $input|tostring)`, "a")
	for _, refused := range []string{"(now|tostring)", "(.a|input)", "[inputs]", "(.a // now)", `("at \(now)"|tostring)`, "({a: now}|.a)", "(if .a then debug else . end)",
		"(reduce .inputs[] as $x (0; . + now))", "(def f: now; f)", "(.inputs|map(stderr))", "(try input_line_number catch .)", "(.a[now])"} {
		if _, err := Format("flow=.f,to=.to,content=" + refused); err == nil || !strings.Contains(err.Error(), "may not be used in mappings") {
			t.Errorf("%s: %v", refused, err)
		}
	}
}

// TestUnread says what a mapping made nothing of: kinds that it does not explain, and fields that
// no record has.
func TestUnread(t *testing.T) {
	f, err := Format("flow=.run,kind=.ev,kind.msg=agent.call,from=.sendr,to=.whom,source=\"s\"")
	if err != nil {
		t.Fatal(err)
	}
	var got []adapter.Unread
	silent := 0
	o := adapter.Options{Unread: func(u adapter.Unread) { got = append(got, u) }, Silent: func(adapter.Silence) { silent++ }}
	lines := []string{`{"run":"r","ev":"msg","whom":"b"}`, `{"run":"r","ev":"ping"}`, `{"run":"r","ev":"ping"}`, `{"run":"r"}`}
	for range 100 {
		lines = append(lines, fmt.Sprintf(`{"run":"r","ev":"id-%d"}`, len(lines)))
	}
	read := func() {
		a := f.New(o)
		for _, line := range lines {
			if err := a.Decode([]byte(line), func(*events.Event) {}); err != nil {
				t.Fatal(err)
			}
		}
		_ = a.Flush(nil)
	}
	read()
	if len(got) != 1 || got[0].Records != 104 || got[0].Kinds["ping"] != 2 || got[0].Kinds[""] != 1 || len(got[0].Kinds) > maxKinds+1 || fmt.Sprint(got[0].Never) != "[from]" || silent != 0 {
		t.Errorf("%+v, silent %d", got, silent)
	}
	// A running weir counts them with the spans that give no event.
	o.Unread = nil
	if read(); silent != 103 {
		t.Errorf("silent %d", silent)
	}
}

// TestCallsWithResults makes a call and its result of a record that has both, unless the log
// has records of their own for results.
func TestCallsWithResults(t *testing.T) {
	check := func(mapping, line, want string) {
		t.Helper()
		f, err := Format(mapping)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		err = f.New(adapter.Options{}).Decode([]byte(line), func(e *events.Event) {
			told = append(told, fmt.Sprintf("%v %s %s %d %v %v %d", e.Kind, e.Tool.Name, e.Tool.CallID, e.Time%10000, !e.Content.IsZero(), e.Status, e.Usage.Total))
		})
		if got := strings.Join(told, ", "); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", mapping, got, err, want)
		}
	}
	line := `{"run":"r","id":"7","ts":"2026-11-20T14:00:01Z","t":"tool","what":"grep","in":{"q":"x"},"out":"y","err":"no such file","ms":250,"n":9}`
	const rest = ",flow=.run,id=.id,time=.ts,tool=.what,args=.in,result=.out,error=.err,duration_ms=.ms,total_tokens=.n"
	check("source=\"s\""+rest, line, "tool.call grep 7 1000 false  9, tool.result grep 7 1250 true error 0")
	check("kind=.t,kind.tool=tool.call"+rest, line, "tool.call grep 7 1000 false  9, tool.result grep 7 1250 true error 0")
	check("kind=.t,kind.tool=tool.call,kind.done=tool.result"+rest, line, "tool.call grep 7 1000 true error 9")
	check("kind=\"tool.call\",flow=.run,id=.id,time=.ts,tool=.what,args=.in", line, "tool.call grep 7 1000 false  0")
}
