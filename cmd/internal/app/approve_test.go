package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/api"
	"weir/cmd/internal/clock"
	"weir/events"
)

// inbox is a place where persons are asked: it keeps the messages that it gets.
type inbox struct {
	mu   sync.Mutex
	got  []string
	code int // of its answers; 0: 200
}

func (b *inbox) put(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, text)
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	code := b.code
	b.mu.Unlock()
	if code != 0 {
		w.WriteHeader(code)
		return
	}
	b.put(string(body))
}

func (b *inbox) list() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.got...)
}

// patience is how long a test waits for what has to come.
const patience = time.Minute

// nth waits for the nth message, from 1 on.
func (b *inbox) nth(t *testing.T, n int) string {
	t.Helper()
	eventually(t, fmt.Sprintf("message %d", n), func() bool { return len(b.list()) >= n })
	return b.list()[n-1]
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func newInbox(t *testing.T) (*inbox, string) {
	b := new(inbox)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

// desk is a weir that asks persons, and what they do.
type desk struct {
	hand
	dir  string
	fake *clock.Fake
}

// asking begins a weir with settings of approvals.
func asking(t *testing.T, fake *clock.Fake, dir, settings string, limits analyzer.Limits) desk {
	t.Helper()
	o := Options{StateDir: dir, Clock: fake, Limits: limits, SwitchFile: switchFile(t, "approvals:\n  url: https://weir.example\n"+settings)}
	return desk{beginHand(t, o), dir, fake}
}

var linkIn = regexp.MustCompile(`https://weir\.example(/v1/approvals/[A-Za-z0-9_.-]+)`)

// links are the paths of the links in a message: to approve and to deny.
func links(t *testing.T, message string) (approve, deny string) {
	t.Helper()
	found := linkIn.FindAllStringSubmatch(message, -1)
	if len(found) < 2 {
		t.Fatalf("the message has %d links: %s", len(found), message)
	}
	return found[0][1], found[1][1]
}

// ask checks a call of a flow.
func (d desk) ask(flow string, n int) reply {
	return d.do("POST", "/v1/check", lines(call(flow, n, "a", "b")))
}

// held spends the two calls of a flow, so that the third waits.
func (d desk) held(flow string) {
	d.t.Helper()
	d.want(d.ask(flow, 1), 200)
	d.want(d.ask(flow, 2), 200)
	d.want(d.ask(flow, 3), 402, `"action":"hold"`)
}

// audited returns the lines of the audit log that have all of the parts.
func (d desk) audited(parts ...string) (out []string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "audit.jsonl"))
	if err != nil {
		d.t.Fatal(err)
	}
lines:
	for line := range strings.Lines(string(text)) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		out = append(out, line)
	}
	return out
}

func (d desk) waiting() (list api.ApprovalList) {
	d.t.Helper()
	d.get("/v1/approvals", &list)
	return list
}

// TestApproval holds that a held flow asks by Slack, that opening a link changes nothing, that the answer is
// carried out once, and that the audit log has each step.
func TestApproval(t *testing.T) {
	t.Parallel()
	slack, url := newInbox(t)
	d := asking(t, clock.NewFake(), t.TempDir(), "  tiers: [{name: ops, slack: \""+url+"\"}]\n", only(t, "max_total_calls: {max: 2, action: hold}"))
	d.held("f")
	message := slack.nth(t, 1)
	var m struct {
		Blocks []struct {
			Type     string
			Elements []struct {
				Type, URL, Style string
				Text             struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatal(err)
	}
	last := m.Blocks[len(m.Blocks)-1]
	if last.Type != "actions" || len(last.Elements) != 2 || last.Elements[0].Text.Text != "Approve" || last.Elements[1].Text.Text != "Deny" || last.Elements[1].Style != "danger" {
		t.Errorf("the buttons are %+v", last)
	}
	for _, part := range []string{"A flow waits for your approval", "1 call more for the flow, for 1h", "it is denied at 2026-11-20T14:10:00.000Z"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message has no %q: %s", part, message)
		}
	}
	approve, deny := links(t, message)
	for range 3 { // previews and scanners of mail
		d.want(d.do("GET", approve, ""), 200, "<form method=\"post\">", "Approve flow f")
		d.want(d.do("GET", deny, ""), 200, "Deny flow f", "the flow is stopped")
	}
	d.want(d.ask("f", 4), 402)
	got := d.do("POST", approve, "name=Ann+%2F+x", "Content-Type", "application/x-www-form-urlencoded")
	d.want(got, 200, "Approved", "link/ops/Ann  x")
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || got.header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("the headers are %v", got.header)
	}
	d.fake.Advance(time.Second) // another millisecond is another order
	d.want(d.ask("f", 5), 200)
	for _, link := range []string{approve, deny} {
		d.want(d.do("GET", link, ""), 410, "Already decided", "approved by link/ops/Ann")
		d.want(d.do("POST", link, ""), 410, "Already decided")
	}
	d.want(d.ask("f", 6), 402) // one more was granted
	if again := slack.nth(t, 2); strings.Contains(again, approve) {
		t.Error("the second hold has the link of the first")
	}
	for _, want := range [][]string{{`"kind":"approval.ask"`, `"stage":"asked"`, `"flow":"f"`, "tier 1 of 1: ops"}, {`"kind":"approval.ask"`, `"stage":"answered"`, "delivered"},
		{`"kind":"approval.approve"`, `"stage":"answered"`, `"status":200`, `"by":"link/ops/Ann`, `"path":"/v1/approvals/..."`, "link of tier ops"},
		{`"kind":"approval.deny"`, `"stage":"refused"`, `"status":410`}} {
		if len(d.audited(want...)) == 0 {
			t.Errorf("the audit log has no line with %q", want)
		}
	}
	if leaked := d.audited(strings.TrimPrefix(approve, "/v1/approvals/")); len(leaked) > 0 {
		t.Errorf("the audit log has a link: %s", leaked)
	}
	// Links that are none.
	for _, link := range []string{approve[:len(approve)-2], approve + "AA", "/v1/approvals/x", strings.Replace(approve, ".", "x.", 1)} {
		d.want(d.do("GET", link, ""), 404, "Not a link of this weir")
		d.want(d.do("POST", link, ""), 404)
	}
	d.want(d.do("POST", deny, "", "Origin", "null"), 403, "another origin")
}

// TestApprovalDenied holds that a denial stops the flow.
func TestApprovalDenied(t *testing.T) {
	t.Parallel()
	teams, url := newInbox(t)
	d := asking(t, clock.NewFake(), t.TempDir(), "  tiers: [{name: ops, teams: \""+url+"\"}]\n", only(t, "max_total_calls: {max: 2, action: hold}"))
	d.held("f")
	message := teams.nth(t, 1)
	for _, part := range []string{`"type":"AdaptiveCard"`, `"type":"Action.OpenUrl","title":"Approve"`, `"style":"destructive"`} {
		if !strings.Contains(message, part) {
			t.Errorf("the message has no %s: %s", part, message)
		}
	}
	approve, deny := links(t, message)
	d.want(d.do("POST", deny, ""), 200, "Denied")
	d.want(d.ask("f", 4), 403, "operator_stop")
	d.want(d.do("POST", approve, ""), 410, "denied by link/ops")
	// A hold that a person decides elsewhere makes its links void.
	d.held("g")
	approve, _ = links(t, teams.nth(t, 2))
	d.want(d.order("/v1/flows/g/grant", `{"calls":5,"for_s":60,"reason":"a test","by":"ann"}`), 202)
	d.want(d.do("POST", approve, ""), 410, "Nothing waits any more")
	d.want(d.ask("g", 4), 200)
}

// TestApprovalEscalates holds that each tier has its time, by the clock, that a crash and a restart lose no
// hold and repeat no message, and that the settings say what comes last.
func TestApprovalEscalates(t *testing.T) {
	t.Parallel()
	for _, unanswered := range []string{"deny", "allow", "hold"} {
		t.Run(unanswered, func(t *testing.T) {
			t.Parallel()
			first, url1 := newInbox(t)
			second, url2 := newInbox(t)
			fake, dir := clock.NewFake(), t.TempDir()
			settings := fmt.Sprintf("  unanswered: %s\n  tiers:\n  - {name: ops, slack: %q, wait: 10m}\n  - {name: lead, teams: %q, wait: 20m}\n", unanswered, url1, url2)
			limits := only(t, "max_total_calls: {max: 2, action: hold}")
			d := asking(t, fake, dir, settings, limits)
			d.held("f")
			if text := first.nth(t, 1); !strings.Contains(text, "lead is asked at 2026-11-20T14:10:00.000Z") {
				t.Errorf("the message does not say what comes next: %s", text)
			}
			eventually(t, "the note of the delivery", func() bool { w := d.waiting().Waiting; return len(w) == 1 && w[0].Delivered && !w[0].Armed })
			d.kill()
			d = asking(t, fake, dir, settings, limits)
			fake.Advance(9*time.Minute + 59*time.Second)
			d.want(d.ask("f", 4), 402)
			if n := len(second.list()); n > 0 {
				t.Fatalf("the second tier has %d messages before its time", n)
			}
			fake.Advance(time.Second)
			approve, _ := links(t, second.nth(t, 1))
			if len(first.list()) != 1 {
				t.Errorf("the first tier has the messages %q", first.list())
			}
			d.want(d.ask("f", 5), 402)
			eventually(t, "the note of the delivery", func() bool { w := d.waiting().Waiting; return len(w) == 1 && w[0].Delivered })
			fake.Advance(20 * time.Minute)
			eventually(t, "the line of no answer", func() bool {
				return len(d.audited(`"kind":"approval.unanswered"`, `"stage":"answered"`, unanswered)) == 1
			})
			switch unanswered {
			case "deny":
				d.want(d.ask("f", 6), 403, "operator_stop")
				eventually(t, "the decision", func() bool { return d.do("GET", approve, "").status == 410 })
				if was := d.waiting().Decided; len(was) == 0 || was[0].Outcome != "unanswered" || was[0].Did != "denied" {
					t.Errorf("the decision is %+v", was)
				}
				d.want(d.do("GET", "/v1/verdicts?flow=f", ""), 200, `"detail":"denied: no person answered the request for approval"`)
			case "allow":
				d.want(d.ask("f", 6), 200)
				eventually(t, "the decision", func() bool { was := d.waiting().Decided; return len(was) > 0 && was[0].Did == "approved" })
			case "hold":
				d.want(d.ask("f", 6), 402)
				eventually(t, "the end of the turn", func() bool { w := d.waiting().Waiting; return len(w) == 1 && w[0].Lapsed })
				d.want(d.do("POST", approve, ""), 200) // a late answer counts
				d.want(d.ask("f", 7), 200)
			}
		})
	}
}

// TestApprovalThatReachesNobody holds that weir approves nothing that no person has been asked about, and that
// a message is sent again until it is taken.
func TestApprovalThatReachesNobody(t *testing.T) {
	t.Parallel()
	slack, url := newInbox(t)
	slack.code = 500
	d := asking(t, clock.NewFake(), t.TempDir(), "  unanswered: allow\n  tiers: [{name: ops, slack: \""+url+"\", wait: 10m}]\n", only(t, "max_total_calls: {max: 2, action: hold}"))
	d.held("f")
	eventually(t, "a failure", func() bool { return len(d.audited("not delivered: status 500")) > 0 })
	d.fake.Advance(10 * time.Minute)
	eventually(t, "the line of no answer", func() bool { return len(d.audited(`"kind":"approval.unanswered"`, ": hold")) > 0 })
	d.want(d.ask("f", 4), 402)
	slack.mu.Lock()
	slack.code = 0
	slack.mu.Unlock()
	eventually(t, "the message", func() bool { d.fake.Advance(time.Second); return len(slack.list()) > 0 })
	approve, _ := links(t, slack.nth(t, 1))
	d.want(d.do("POST", approve, ""), 200)
	d.want(d.ask("f", 5), 200)
}

// TestApprovalOfEachKind answers holds of trees, new flows, budgets and patterns.
func TestApprovalOfEachKind(t *testing.T) {
	t.Parallel()
	in := func(parent, flow string, n int) string {
		return strings.Replace(lines(call(flow, n, "a", "b")), `"correlation_id"`, `"parent_correlation_id":"`+parent+`","correlation_id"`, 1)
	}
	team := func(flow string, n int) string {
		return strings.Replace(lines(call(flow, n, "a", "b")), `"correlation_id"`, `"team_id":"red","correlation_id"`, 1)
	}
	for _, c := range []struct {
		name, limits, says string
		calls              []string // the last one is held
		again              string   // is allowed once it is approved
		held, denied       int      // the status of the call while it waits and once it is denied
	}{
		{"tree", "rules: {max_tree_calls: {max: 2, action: hold}}", "1 call more for the tree", []string{in("top", "c1", 1), in("top", "c2", 1), in("top", "c1", 2)}, in("top", "c2", 3), 402, 403},
		{"spawn", "rules: {max_tree_spawns: {stop: 1, action: hold}}", "1 flow more for the tree", []string{lines(call("top", 1, "a", "b")), in("top", "c1", 1)}, in("top", "c1", 2), 403, 403},
		{"budget", "budgets: [{name: day, scope: team, measure: calls, window: day, hard: 2, action: hold}]", "1 call more, until the window ends", []string{team("f", 1), team("g", 1), team("f", 2)}, team("f", 3), 402, 402},
		{"calls", "rules: {max_spawns: {stop: 1, action: hold}}", "1 spawn more for the flow", []string{lines(call("f", 1, "a", "b"))}, lines(call("f", 2, "a", "b")), 402, 402},
		{"flow", "rules: {repetition: {warn: off, stop: 2, action: hold}}", "no rule stops it for 1h", nil, lines(call("p", 9, "a", "b")), 0, 403},
	} {
		for _, approves := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, approves), func(t *testing.T) {
				t.Parallel()
				slack, url := newInbox(t)
				limits := parsed(t, "profile: none\n"+c.limits+"\n")
				d := asking(t, clock.NewFake(), t.TempDir(), "  tiers: [{name: ops, slack: \""+url+"\"}]\n", limits)
				for i, body := range c.calls {
					d.want(d.do("POST", "/v1/check", body), map[bool]int{true: c.held, false: 200}[i == len(c.calls)-1])
				}
				if c.calls == nil {
					loop := func(n int) string {
						return fmt.Sprintf(`{"id":"t%d","source":"s","time":"%s","kind":"tool.%s","correlation_id":"p","from":{"agent":"a"},"tool":{"name":"t","call_id":"c%d","args_hash":"xxh64:00000000000000aa"},"content_hash":"xxh64:00000000000000bb"}`,
							n, events.RFC3339(events.StampOf(d.fake.Now())), []string{"call", "result"}[n%2], n/2)
					}
					d.want(d.do("POST", "/v1/events", strings.Join([]string{loop(0), loop(1), loop(2), loop(3)}, "\n")), 202)
				}
				eventually(t, "the message", func() bool { d.fake.Advance(10 * time.Millisecond); return len(slack.list()) > 0 })
				message := slack.nth(t, 1)
				if !strings.Contains(message, c.says) {
					t.Errorf("the message has no %q: %s", c.says, message)
				}
				approve, deny := links(t, message)
				link, want := approve, 200
				if !approves {
					link, want = deny, c.denied
				}
				d.want(d.do("POST", link, ""), 200)
				n := 100
				eventually(t, "the answer to take effect", func() bool {
					n++
					d.fake.Advance(10 * time.Second) // the order about a new flow lasts a minute
					return d.do("POST", "/v1/check", strings.Replace(c.again, `"id":"`, fmt.Sprintf(`"id":"x%d-`, n), 1)).status == want
				})
				for _, used := range []string{approve, deny} {
					d.want(d.do("POST", used, ""), 410, "Already decided")
				}
			})
		}
	}
}

// TestApprovalOfLimitsOfZero holds that an approval of a limit without a share lets the refused call go on, and
// that persons are asked once a call is refused, not before.
func TestApprovalOfLimitsOfZero(t *testing.T) {
	t.Parallel()
	tool := func(flow string, n int) string {
		return fmt.Sprintf(`{"id":"%s-t%d","source":"s","time":"2026-11-20T14:00:00Z","kind":"tool.call","correlation_id":"%s","from":{"agent":"a"},"tool":{"name":"t","call_id":"c%d"}}`, flow, n, flow, n)
	}
	for name, c := range map[string]struct {
		limits, says, text string
		status             int
		free               bool // a tool is free
	}{
		"spawns":     {"budgets: [{name: first, scope: tree, measure: spawns, window: day, hard: 0, action: hold}]", "1 call more, until the window ends", "is used up", 402, true},
		"dollars":    {"budgets: [{name: first, scope: tree, measure: usd, window: day, hard: 0, action: hold}]", "$0.01 more, until the window ends", "is used up", 402, false},
		"reserve":    {"budgets: [{name: first, scope: tree, measure: usd, window: day, hard: 3, reserve: 3, action: hold}]", "$3 more, until the window ends", "is used up", 402, false},
		"a rule":     {"rules: {max_spawns: {max: 0, action: hold}}", "1 spawn more for the flow", "this call would start the first", 402, true},
		"one spawn":  {"rules: {max_spawns: {stop: 1, action: hold}}", "1 spawn more for the flow", "this call would start the first", 402, true},
		"calls":      {"rules: {max_total_calls: {max: 0, action: hold}}", "1 call more for the flow", "", 402, false},
		"tree calls": {"rules: {max_tree_calls: {max: 0, action: hold}}", "1 call more for the tree", "", 402, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slack, url := newInbox(t)
			d := asking(t, clock.NewFake(), t.TempDir(), "  tiers: [{name: ops, slack: \""+url+"\"}]\n", parsed(t, "profile: none\n"+c.limits+"\n"))
			if c.free {
				d.want(d.do("POST", "/v1/check", tool("f", 1)), 200)
			}
			if name == "reserve" {
				d.want(d.do("POST", "/v1/events", `{"id":"spent","source":"s","time":"2026-11-20T14:00:00Z","kind":"llm.call","correlation_id":"f","from":{"agent":"a"},"usage":{"cost_usd":3}}`), 202)
			}
			ask := func(n int) reply {
				text := lines(call("f", n, "a", "b"))
				if strings.Contains(name, "tree") {
					text = strings.Replace(text, `"correlation_id"`, `"parent_correlation_id":"top","correlation_id"`, 1)
				}
				return d.do("POST", "/v1/check", text)
			}
			d.want(ask(1), c.status)
			message := slack.nth(t, 1)
			for _, part := range []string{c.says, c.text} {
				if !strings.Contains(message, part) {
					t.Errorf("the message has no %q: %s", part, message)
				}
			}
			if d.waiting().Waiting[0].Armed {
				t.Error("persons were asked before a call was refused")
			}
			approve, _ := links(t, message)
			d.want(d.do("POST", approve, ""), 200, "Approved")
			n := 100
			eventually(t, "the answer to take effect", func() bool { n++; d.fake.Advance(time.Second); return ask(n).status == 200 })
		})
	}
}

// TestApprovalOfASecondPerson holds that a tier that stands for a principal confirms a stop, and that no other
// link does: not one of a channel, and not one of the first person.
func TestApprovalOfASecondPerson(t *testing.T) {
	t.Parallel()
	channel, url1 := newInbox(t)
	bob, url2 := newInbox(t)
	fake := clock.NewFake()
	settings := fmt.Sprintf("two-persons: [all]\napprovals:\n  url: https://weir.example\n  tiers:\n  - {name: ops, slack: %q, wait: 1m}\n  - {name: bob, slack: %q, as: bob, wait: 5m}\n", url1, url2)
	people1 := map[string]string{"ann": "roles: operate", "bob": "roles: operate", "dan": "roles: ask"}
	r := people(t, Options{StateDir: t.TempDir(), Clock: fake, SwitchFile: switchFile(t, settings)}, people1)
	r.want(r.as("ann", "POST", "/v1/orders", `{"scope":"all","reason":"a test","for_s":600}`), 202)
	if text := channel.nth(t, 1); linkIn.MatchString(text) || !strings.Contains(text, "weir orders confirm ") {
		t.Errorf("a channel gets %s", text)
	}
	fake.Advance(time.Minute)
	approve, _ := links(t, bob.nth(t, 1))
	got := r.do("POST", approve, "name=eve")
	r.want(got, 200, "bob/link")
	if strings.Contains(got.body, "eve") {
		t.Error("a name is taken where the tier stands for a principal")
	}
	r.want(r.as("dan", "POST", "/v1/check", lines(call("f", 1, "a", "b"))), 403)
	r.want(r.do("POST", approve, ""), 410)
	r.want(r.as("bob", "DELETE", "/v1/orders/all", `{"reason":"over"}`), 200)
	// The first person is no second one.
	r.want(r.as("bob", "POST", "/v1/orders", `{"scope":"all","reason":"a test","for_s":600}`), 202)
	channel.nth(t, 2)
	fake.Advance(time.Minute)
	if text := bob.nth(t, 2); linkIn.MatchString(text) {
		t.Errorf("the first person gets %s", text)
	}
	if _, err := New(Options{Listen: "127.0.0.1:0", AccessFile: writePeople(t, t.TempDir(), map[string]string{"bob": "roles: operate, flows: f*", "ann": "roles: operate"}),
		SwitchFile: switchFile(t, fmt.Sprintf("approvals:\n  url: https://weir.example\n  tiers: [{name: bob, slack: %q, as: bob}]\n", url1))}); err == nil || !strings.Contains(err.Error(), `as is "bob"`) {
		t.Errorf("a principal that may not stop: %v", err)
	}
}

// postOffice is a server that takes mails and offers no TLS.
func postOffice(t *testing.T) (*inbox, string) {
	t.Helper()
	b := new(inbox)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.talk(c)
		}
	}()
	return b, l.Addr().String()
}

// talk is one conversation of SMTP.
func (b *inbox) talk(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	say := func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	say("220 post.example ready")
	var letter strings.Builder
	for data := false; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " ")
		switch {
		case data && strings.TrimRight(line, "\r\n") == ".":
			b.put(letter.String())
			letter.Reset()
			data = false
			say("250 taken")
		case data:
			letter.WriteString(line)
		case word == "EHLO" || word == "HELO":
			say("250-post.example")
			say("250 8BITMIME")
		case word == "MAIL" || word == "RCPT":
			letter.WriteString("> " + line)
			say("250 ok")
		case word == "DATA":
			data = true
			say("354 go on")
		case word == "QUIT":
			say("221 bye")
			return
		default:
			say("502 not known")
		}
	}
}

// TestApprovalByMail has a real conversation with a server of mail.
func TestApprovalByMail(t *testing.T) {
	t.Parallel()
	post, server := postOffice(t)
	settings := "  tiers: [{name: ann, email: [\"Ann <ann@example.com>\", bob@example.com]}]\n  smtp: {server: \"" + server + "\", from: weir@example.com, plain: true}\n"
	d := asking(t, clock.NewFake(), t.TempDir(), settings, only(t, "max_total_calls: {max: 2, action: hold}"))
	d.held("f")
	letter := post.nth(t, 1)
	for _, part := range []string{"> MAIL FROM:<weir@example.com>", "> RCPT TO:<ann@example.com>", "> RCPT TO:<bob@example.com>", "Subject: A flow waits for your approval: f\r\n", "Message-ID: <", "Date: Fri, 20 Nov 2026 14:00:00", "multipart/alternative"} {
		if !strings.Contains(letter, part) {
			t.Errorf("the mail has no %q: %s", part, letter)
		}
	}
	approve, _ := links(t, strings.ReplaceAll(strings.ReplaceAll(letter, "=\r\n", ""), "=3D", "="))
	d.want(d.do("POST", approve, ""), 200)
	d.want(d.ask("f", 4), 200)
	// Without plain, a server that offers no TLS gets no link.
	d2 := asking(t, clock.NewFake(), t.TempDir(), strings.Replace(settings, ", plain: true", "", 1), only(t, "max_total_calls: {max: 2, action: hold}"))
	d2.held("f")
	eventually(t, "the refusal", func() bool { return len(d2.audited("offers no STARTTLS")) > 0 })
	if n := len(post.list()); n != 1 {
		t.Errorf("the server has %d mails", n)
	}
}

// TestApprovalLinksEnd holds that a link ends with its hold.
func TestApprovalLinksEnd(t *testing.T) {
	t.Parallel()
	slack, url := newInbox(t)
	d := asking(t, clock.NewFake(), t.TempDir(), "  unanswered: hold\n  tiers: [{name: ops, slack: \""+url+"\"}]\n", only(t, "max_total_calls: {max: 2, action: hold}"))
	d.held("f")
	approve, _ := links(t, slack.nth(t, 1))
	d.fake.Advance(2 * time.Hour) // nobody decides within orders.hold
	eventually(t, "the end of the link", func() bool { return d.do("GET", approve, "").status == 410 })
	d.want(d.do("POST", approve, ""), 410)
}

// parsed reads limits.
func parsed(t *testing.T, text string) analyzer.Limits {
	t.Helper()
	limits, err := limitfile.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// TestLinksOfAnUnknownHost warns of links that weir would answer by 421.
func TestLinksOfAnUnknownHost(t *testing.T) {
	t.Parallel()
	for host, warned := range map[string]bool{"https://weir.example": true, "https://Other.example:8443": false, "http://127.0.0.1:8080": false} {
		log := new(text)
		begin(t, Options{Hosts: []string{"other.example"}, Logger: slog.New(slog.NewJSONHandler(log, nil)),
			SwitchFile: switchFile(t, "approvals: {url: \""+host+"\", tiers: [{name: ops, slack: \"http://127.0.0.1:1/x\"}]}\n")})
		if got := strings.Contains(log.String(), "add --host"); got != warned {
			t.Errorf("%s: %v, %s", host, got, log)
		}
	}
}
