package scenario

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/events"
)

// parse reads one case that must be right.
func parseOne(t *testing.T, text string) *Case {
	t.Helper()
	cases, err := Parse("test.flow", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 1 {
		t.Fatalf("%d cases in %q", len(cases), text)
	}
	return &cases[0]
}

// brief is an event as the tests below spell it.
func brief(ev *events.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", ev.Time.Sub(Start), ev.Kind)
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, value)
		}
	}
	add("from", ev.From.Session)
	add("to", ev.To.Session)
	add("tool", ev.Tool.Name)
	add("call", ev.Tool.CallID)
	add("retry", ev.Tool.RetryOf)
	add("work", [...]string{"", "no", "yes"}[ev.HadWork])
	if ev.Status != events.StatusOK {
		add("status", ev.Status.String())
	}
	add("error", ev.ErrorType)
	add("turn", ev.TurnID)
	add("task", ev.TaskID)
	if ev.CorrelationID != mainFlow {
		add("flow", ev.CorrelationID+"!")
	}
	if ev.Ask {
		b.WriteString(" ask")
	}
	if ev.AgentState != nil {
		fmt.Fprintf(&b, " %+v", *ev.AgentState)
	}
	if ev.Note != nil {
		fmt.Fprintf(&b, " %+v", *ev.Note)
	}
	if ev.Rescue != nil {
		fmt.Fprintf(&b, " %+v", *ev.Rescue)
	}
	if ev.Review != nil {
		fmt.Fprintf(&b, " %+v", *ev.Review)
	}
	return b.String()
}

func TestEvents(t *testing.T) {
	f := func(line string, want ...string) {
		t.Helper()
		c := parseOne(t, line+"\n----\n")
		var got []string
		for _, ev := range c.Events() {
			got = append(got, brief(&ev))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", line, got, want)
		}
	}
	f("@a", "0s agent.call to=a")
	f("@a ->b", "0s agent.call to=a", "1s agent.call from=a to=b work=no")
	f("@a ->b =>a ->c", "0s agent.call to=a", "1s agent.call from=a to=b work=no", "2s agent.return from=b to=a work=no", "3s agent.call from=a to=c work=no")
	f("a~ a->b a->b", "0s agent.call from=a to=b work=yes", "1s agent.call from=a to=b work=no")
	f("a!t a->b", "0s tool.call from=a tool=t call=c1", "1s agent.call from=a to=b work=yes")
	f("a=>", "0s agent.return from=a work=no")
	f("a=>b?bad", "0s agent.return from=a to=b work=no status=error error=bad")
	f("[work=unknown] a->b a->b[work=yes]", "0s agent.call from=a to=b", "1s agent.call from=a to=b work=yes")
	f("a!t:x=1", "0s tool.call from=a tool=t call=c1", "1s tool.result from=a tool=t call=c1")
	f("a!t:x?429", "0s tool.call from=a tool=t call=c1", "1s tool.result from=a tool=t call=c1 status=error error=429")
	f("a!t:x a!t:y a!t:x a<t:x=1 a<t:x=2 a<t:x=3", "0s tool.call from=a tool=t call=c1", "1s tool.call from=a tool=t call=c2",
		"2s tool.call from=a tool=t call=c3", "3s tool.result from=a tool=t call=c1", "4s tool.result from=a tool=t call=c3", "5s tool.result from=a tool=t")
	f("a!t:x[noid] a!t:x[retry]", "0s tool.call from=a tool=t", "1s tool.call from=a tool=t call=c2 retry=earlier")
	f("a!t:x a!t:x[retry]", "0s tool.call from=a tool=t call=c1", "1s tool.call from=a tool=t call=c2 retry=c1")
	f("?a->b ?a!t:x a$[in=5]", "0s agent.call from=a to=b work=no ask", "1s tool.call from=a tool=t call=c2 ask", "2s llm.call from=a")
	f("start turn:2 loop:t reflect:t stop release:why override:circling[mode=off] end", "0s flow.start", "1s turn.start turn=2", "2s task.loop task=t",
		"3s task.reflect task=t", "4s operator.stop", "5s operator.release", "6s override.set", "7s flow.end")
	f("a->b dup a->c dup:1", "0s agent.call from=a to=b work=no", "0s agent.call from=a to=b work=no", "1s agent.call from=a to=c work=no", "0s agent.call from=a to=b work=no")
	f("a->b +5m a->b +0s a->b +1s +1s a->b", "0s agent.call from=a to=b work=no", "5m0s agent.call from=a to=b work=no", "5m0s agent.call from=a to=b work=no", "5m2s agent.call from=a to=b work=no")
	f("a->b a->b[late=3s] a->b", "0s agent.call from=a to=b work=no", "-2s agent.call from=a to=b work=no", "2s agent.call from=a to=b work=no")
	f("( ( a{i}!t{j} )*2 )*2", "0s tool.call from=a1 tool=t1 call=c1", "1s tool.call from=a2 tool=t1 call=c2", "2s tool.call from=a1 tool=t2 call=c3", "3s tool.call from=a2 tool=t2 call=c4")
	f("[turn=1] a!t [turn=] a!t a!t[turn=3]", "0s tool.call from=a tool=t call=c1 turn=1", "1s tool.call from=a tool=t call=c2", "2s tool.call from=a tool=t call=c3 turn=3")
	f("a->b[flow=] a->b[flow=x]", "0s agent.call from=a to=b work=no flow=!", "1s agent.call from=a to=b work=no flow=x!")
	f("[flow=x] @a [flow=y] @b ->c [flow=x] ->d", "0s agent.call to=a flow=x!", "1s agent.call to=b flow=y!", "2s agent.call from=b to=c work=no flow=y!", "3s agent.call from=a to=d work=no flow=x!")
	f("a->b[refused] a!t:x[refused]", "0s verdict.ack from=a to=b", "1s verdict.ack from=a tool=t call=c2")
	f("a^ a^active[flow=main]", "0s agent.status from=a flow=! {Status: Margin: Health: Coherence:0 Risk:0 HasCoherence:false HasRisk:false VoidActive:false TotalUpdates:0 LastUpdate:0}",
		"1s agent.status from=a {Status:active Margin: Health: Coherence:0 Risk:0 HasCoherence:false HasRisk:false VoidActive:false TotalUpdates:0 LastUpdate:0}")
	f("[flow=x] a^active[margin=tight health=moderate coherence=0.5 risk=0 void]",
		"0s agent.status from=a flow=! {Status:active Margin:tight Health:moderate Coherence:0.5 Risk:0 HasCoherence:true HasRisk:true VoidActive:true TotalUpdates:0 LastUpdate:0}")
	f(`a#stuck#help a#"a b"->b:"see this"`, "0s note from=a flow=! {Summary: Tags:[stuck help] Details:}", "1s note from=a to=b flow=! {Summary:see this Tags:[a b] Details:}")
	f("rescue:b[by=a] rescue:b[by=a admin]", "0s rescue.request from=a to=b flow=! {Reason: Admin:false}", "1s rescue.request from=a to=b flow=! {Reason: Admin:true}")
	f("review:b[by=c decision=keep] ack:b[by=c]", "0s review.result from=c to=b flow=! {Decision:keep Reason:}", "1s verdict.ack from=c to=b flow=!")
	f(`"an agent"->"b\"c"`, `0s agent.call from=an agent to=b"c work=no`)
	f("a-1->b.2/x_3", "0s agent.call from=a-1 to=b.2/x_3 work=no")
}

func TestTexts(t *testing.T) {
	f := func(line string, sameHash, near bool) {
		t.Helper()
		evs := parseOne(t, line+"\n----\n").Events()
		a, b := &evs[0], &evs[1]
		if got := !a.Content.IsZero() && a.Content == b.Content; got != sameHash {
			t.Errorf("%s: same hash %v, want %v", line, got, sameHash)
		}
		if got := a.Sim.Near(b.Sim); got != near {
			t.Errorf("%s: nearly the same %v, want %v", line, got, near)
		}
	}
	f("a->b:x a->b:x", true, false)
	f("a->b:x a->b:y", false, false)
	f("a->b a->b", false, false)
	f(`a->b:"" a->b:""`, true, false)
	f("a->b:x~g a->b:y~g", false, true)
	f("a->b:x~g a->b:x~g", true, true)
	f("a->b:x~g a->b:y~g^12", false, true)
	f("a->b:x~g a->b:y~g^13", false, false)
	f("a->b:x~g^64 a->b:y~g", false, false)
	f("a->b:x~g a->b:y~h", false, false)
	f("a->b:x~g a->b:y", false, false)
}

func TestParseErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := Parse("test.flow", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\n got %v\nwant %s", text, err, want)
		}
	}
	f("@a a->b\n", "test.flow:1: the case \"test.flow:1\" has no outcome")
	f("# t\n@a\na>b\n----\n", "test.flow:3: \"a>b\" is no event; an agent's name alone says nothing")
	f("@a a\n----\n", "\"a\" is no event; an agent's name alone says nothing")
	f("@a relaese\n----\n", "did you mean \"release\"")
	f("proflie task\n@a\n----\n", "test.flow:1: \"proflie\" is no setting; did you mean \"profile\"")
	f("@a ( a->b\n----\n", "test.flow:1: the parenthesis does not close")
	f("@a\n)*3\n----\n", "test.flow:2: a closing parenthesis without one that opens")
	f("( @a )\n----\n", "a closing parenthesis says how often")
	f("( @a )*99999999\n----\n", "want a number up to 20000")
	f("( ( @a )*200 )*200\n----\n", "a case has at most 20000 events")
	f("( ( ( ( @a )*2 )*2 )*2 )*2\n----\n", "3 deep at most")
	f("@a +5x\n----\n", `"5x": want a time like 100ms`)
	f("->b\n----\n", "nobody is in control yet")
	f("@\n----\n", "the line ends where the name of whom the user calls should be")
	f("a->\n----\n", "the line ends where the name of whom it calls should be")
	f("a->b:\n----\n", `write "" for an empty one`)
	f(`a->b:"x`+"\n----\n", "the quotation does not end")
	f("a->b=c\n----\n", `"=c" is left over`)
	f("a<t:x\n----\n", "a result says what came")
	f("?a~\n----\n", "only calls can be asked for")
	f("?a!t:x=1\n----\n", "only calls can be asked for")
	f("a->b[trun=1]\n----\n", `"trun" is no field; did you mean "turn"`)
	f("a->b[corr=derivd]\n----\n", `did you mean "derived"`)
	f("a->b[turn]\n----\n", "want a value: [turn=...]")
	f("a->b[turn=1\n----\n", "the brackets do not close")
	f("a->b[retry=2]\n----\n", "it takes no value")
	f("a->b:x{i}\n----\n", "counts how often a ( ... )*n was gone through, and there are 0 around")
	f("override:circlin\n----\n", `"circlin" is no rule; did you mean "circling"`)
	f("loop\n----\n", "want what it is about after a colon")
	f("start:x\n----\n", "start takes nothing after a colon")
	f("@a override:circling\n----\n", "no producer may send this event")
	f("^active\n----\n", "say who reports, as in a^active")
	f("@a #help\n----\n", "say whose note it is, as in a#stuck#help")
	f("a#\n----\n", "the line ends where the name of a tag should be")
	f("a^active[risk=1.5]\n----\n", "want a number from 0 to 1")
	f("a^active[void=1]\n----\n", "it takes no value")
	f("review:b\n----\n", "say what was decided")
	f("review:b[decision=kepe]\n----\n", `did you mean "keep"`)
	f("resuce:b\n----\n", `did you mean "rescue"`)
	f("rescue\n----\n", "want what it is about after a colon")
	f("dup\n----\n", "there is no event 0 yet")
	f("a->b dup:7\n----\n", "there is no event 7 yet")
	f("profile nosuch\n@a\n----\n", "test.flow:1: profile: profile: there is no profile")
	f("# t\nprofile task\nrule max_loop: {stop: 3}\n@a\n----\n", "test.flow:3: rule: rules.max_loop:")
	f("limits flow: {idel: 3m}\n@a\n----\n", "test.flow:1: limits: flow.idel:")
	f("step never\n@a\n----\n", "test.flow:1: step:")
	f("@a\n----\n#1 x\n----\n", "a second ---- in one case")
	f("a<t:x~g^99=1\n----\n", "a fingerprint has 64 bits")
}

func TestFormat(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		cases, err := Parse("test.flow", []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(Format(cases)); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
	f("@a\n----\n", "@a\n----\n")
	f("#  title \n\n\n#\n# other\n  @a   (a->b)*3\t+90s\n# between\n@b\n----  \n#1 x \n\tmessage  \"m\"\nstack=a",
		"#\n# other\n@a ( a->b )*3 +1m30s\n# between\n@b\n----\n#1 x\n  message  \"m\"\nstack=a\n")
	f("step 60s\nprofile   task\n@a\n----\n\n\n@b\n----\n", "step 1m\nprofile task\n@a\n----\n\n@b\n----\n")
	f(`"a"->"b c":"x y"~"g"^0 "a"!"t":"k"="" a<t?e[turn="1"  retry]`+"\n----\n", `a->"b c":"x y"~g a!t:k="" a<t?e[turn=1 retry]`+"\n----\n")
	f(`a^"active"[void  coherence=0.5] "a"^ a#"stuck"#"two words"->b:"t"`+"\n----\n", `a^active[void coherence=0.5] a^ a#stuck#"two words"->b:t`+"\n----\n")
	f(`a->"->" b=>"start" "x-"->"y"[source="a b" flow=]`+"\n----\n", `a->"->" b=>start "x-"->y[source="a b" flow=]`+"\n----\n")
}

func TestDiffAndAccept(t *testing.T) {
	c := parseOne(t, "rule max_total_calls: {max: 1}\n@a a->b\n----\n#2 deny max_total_calls_exceeded 1/1 flow\n  http_status 1\nstack=a,b calls=1 agents=2\n")
	out := c.Run(c.Limits(analyzer.Balanced()))
	want := "- #2 deny max_total_calls_exceeded 1/1 flow\n-   http_status 1\n+ #2 arm max_total_calls_exceeded 1/1 flow\n  stack=a,b calls=1 agents=2\n"
	if got := c.Diff(&out); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	c.Want = []string{"#2 arm max_total_calls_exceeded 1/1 flow", "  http_status 1", "  nothing 1", "  evidence.calls 9"}
	c.Accept(&out)
	accepted := []string{"#2 arm max_total_calls_exceeded 1/1 flow", "  http_status 402", "  nothing null", "  evidence.calls null", "stack=a,b calls=1 agents=2"}
	if !slices.Equal(c.Want, accepted) {
		t.Errorf("accepted %q, want %q", c.Want, accepted)
	}
	if diff := c.Diff(&out); diff != "" {
		t.Errorf("what was accepted differs:\n%s", diff)
	}
}

// TestPackageComment runs the case that the package comment begins with.
func TestPackageComment(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "//	# a chain of six")
	text, _, ended := strings.Cut(text, "//\n")
	if !found || !ended {
		t.Fatal("doc.go does not begin with a case any more")
	}
	c := parseOne(t, "# a chain of six"+strings.ReplaceAll(text, "//	", ""))
	out := c.Run(c.Limits(analyzer.Balanced()))
	if diff := c.Diff(&out); diff != "" {
		t.Error(diff)
	}
}

// TestPackageCommentIsWhole fails when it does not describe a word or field.
func TestPackageCommentIsWhole(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range fieldKeys {
		if !bytes.Contains(doc, []byte(k.key+"=")) && (index(bareKeys[:], k.key) < 0 || !bytes.Contains(doc, []byte(k.key))) {
			t.Errorf("the package comment does not tell of the field %s", k.key)
		}
	}
	for _, w := range words {
		if !bytes.Contains(doc, []byte(w.word)) {
			t.Errorf("the package comment does not tell of %s", w.word)
		}
	}
	for _, w := range settingWords {
		if !bytes.Contains(doc, []byte("//	"+w+" ")) {
			t.Errorf("the package comment does not tell of the setting %s", w)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../rulebook/*.flow")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files of cases: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(data), "\n\n") {
			f.Add(part)
		}
	}
	f.Add("# \n#\n( \"\\x00\"!\"t\":\"\"~x^3=\"\"?[late=9h sampled=3 refused] )*2 dup:1 +0s\n----\n#1\n x\n# y\n")
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := Parse("fuzz.flow", []byte(text))
		if err != nil {
			return
		}
		once := Format(cases)
		again, err := Parse("fuzz.flow", once)
		if err != nil {
			t.Fatalf("what was formatted cannot be read: %v\n%s", err, once)
		}
		if twice := Format(again); !bytes.Equal(once, twice) {
			t.Fatalf("formatted again it differs:\n%s\n%s", once, twice)
		}
		for i := range cases {
			c := &cases[i]
			if len(c.deliveries) > 500 {
				continue
			}
			a, b := c.Run(c.Limits(analyzer.Balanced())), again[i].Run(again[i].Limits(analyzer.Balanced()))
			if x, y := a.Lines(), b.Lines(); !slices.Equal(x, y) {
				t.Fatalf("the formatted case says something else:\n%q\n%q\n%s", x, y, once)
			}
			c.Accept(&a)
			if diff := c.Diff(&a); diff != "" {
				t.Fatalf("what was accepted differs:\n%s", diff)
			}
		}
	})
}
