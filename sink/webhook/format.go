package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weir/events"
)

// Format is the shape in which a verdict is sent.
// The zero value is FormatVerdict.
type Format uint8

// The formats. The others than FormatVerdict are for people: they say in words what a person has
// to know or to decide, that is that a flow is held or halted, or that an agent is stuck, and
// nothing of all other verdicts.
const (
	FormatVerdict Format = iota // as it stands in the verdict log
	FormatSlack                 // a message for an incoming webhook of Slack, in Block Kit
	FormatTeams                 // a message for a Teams webhook (Workflows), with an Adaptive Card
	formatCount
)

// In the order of the constants; the zero format is what settings say by saying nothing.
var formatNames = [formatCount]string{"verdict", "slack", "teams"}

// String returns the format as settings spell it.
func (f Format) String() string {
	if f < formatCount {
		return formatNames[f]
	}
	return "invalid"
}

// FormatWords lists the formats as settings spell them.
func FormatWords() string { return strings.Join(formatNames[:], ", ") }

// ParseFormat returns the format that settings spell so; the empty text is FormatVerdict.
func ParseFormat(s string) (Format, error) {
	if s == "" {
		return FormatVerdict, nil
	}
	if i := slices.Index(formatNames[:], s); i >= 0 {
		return Format(i), nil
	}
	return 0, fmt.Errorf("webhook: there is no format %q; want one of %s", s, FormatWords())
}

// body returns what is sent of the verdict; nil for nothing.
// nil is no error: the verdict needs no person, or people know it already.
func (f Format) body(verdict []byte, told *incidents) ([]byte, error) {
	// The bytes of the log themselves, since they are what a signature is about.
	if f == FormatVerdict {
		return verdict, nil
	}
	var v events.Verdict
	if err := events.DecodeVerdict(verdict, &v); err != nil {
		return nil, err
	}
	// Only the messages for people leave verdicts out; the bare format sends all of them.
	n, ok := noticeOf(&v)
	if !ok || !told.news(&v, &n) {
		return nil, nil
	}
	if f == FormatSlack {
		return json.Marshal(n.slack())
	}
	return json.Marshal(n.teams())
}

// notice is the message to a person about a verdict.
// Its texts are as they came; each format escapes them in its own way.
type notice struct {
	title   string
	text    string
	facts   [][2]string
	command string // that answers it; "" for none
}

// noticeOf returns the message to a person, and false if no person has to know at once.
// No message is sent for verdicts that lift, warn, throttle or deny single calls: weir goes on by
// itself then.
func noticeOf(v *events.Verdict) (n notice, ok bool) {
	// In shadow mode nothing happens that a person would have to act on.
	if v.Mode != events.ModeEnforce {
		return n, false
	}
	// An id may be "", and then the commands name no flow.
	flow := shellWord(v.CorrelationID)
	switch v.Action {
	case events.Hold:
		if v.Effective != events.EffectiveNow {
			return n, false // it may end before it has to wait
		}
		n.title = "A flow is held and waits for you"
		// Both ways out: let it go on, or end it.
		n.command = grantCommand(v.Unit, flow) + "\nweir flows stop --reason \"WHY\" " + flow
		n.fact("Waits until", v.ExpiresAt.String()+", then it is halted")
	case events.Halt:
		// A halt that waits for the next call may never come to pass, and one of a drill stops nothing.
		if v.Scope.ID == events.DrillFlow {
			return n, false
		}
		if v.Effective != events.EffectiveNow {
			return n, false
		}
		n.title = map[events.ScopeKind]string{events.ScopeFlow: "A flow is halted", events.ScopeSession: "An agent is halted in a flow", events.ScopeTask: "A task is halted",
			events.ScopeAgent: "An agent is halted in all flows", events.ScopeProject: "A project is halted", events.ScopeTree: "A tree of flows is halted"}[v.Scope.Kind]
		if n.title == "" {
			n.title = "Calls are halted"
		}
		if flow != "" {
			n.command = "weir explain " + flow
		}
	case events.Notify:
		n.title = "An agent needs a person"
	default:
		return n, false
	}
	// Never the words for the model, and no text of messages: weir has none.
	n.text = v.Message
	n.fact("Flow", v.CorrelationID)
	n.fact("Agent", firstOf(v.From, v.Session, v.Agent))
	n.fact("Project", v.ProjectID)
	n.fact("Rule", v.RuleID)
	n.fact("Reason", string(v.Reason))
	if v.Limit != nil && v.Observed != nil {
		n.fact("Observed", figure(*v.Observed)+" of "+figure(*v.Limit)+" "+string(v.Unit))
	}
	// By it the order is found in logs and on the page.
	n.fact("Order", v.ID)
	n.fact("Incident", v.IncidentID)
	return n, true
}

// fact adds a fact, unless its value is empty. Facts are cut, since ids and rules come from
// outside and formats have bounds.
func (n *notice) fact(name, value string) {
	if value != "" {
		n.facts = append(n.facts, [2]string{name, clip(value, 256)})
	}
}

// grantCommand is how a person gives more of what is used up; patterns are no budget.
// The figures are an example that a person changes.
func grantCommand(u events.Unit, flow string) string {
	what := map[events.Unit]string{events.UnitCalls: "--calls 20", events.UnitTokens: "--tokens 100000", events.UnitUSD: "--cost 1", events.UnitSeconds: "--duration 30m"}[u]
	if what == "" {
		return `weir flows release --reason "WHY" --token-file FILE ` + flow
	}
	return "weir flows grant " + what + ` --until 1h --reason "WHY" --token-file FILE ` + flow
}

// shellWord writes an id so that a shell takes it for one word: ids come from the senders of
// events, and a person may paste the command.
// Control characters are replaced, because a terminal obeys them even when they are pasted.
// The id is the last word of a command. If it looks like a flag, such as --all, it gets the sign
// that flags have ended before it.
func shellWord(id string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	ended := ""
	if strings.HasPrefix(id, "-") {
		ended = "-- "
	}
	if id == "" || !strings.ContainsFunc(id, func(r rune) bool { return !plain(r) }) {
		return ended + id
	}
	id = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // C1 and what turns the direction of text, too
			return '?'
		}
		return r
	}, id)
	return ended + "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
}

// firstOf is the first of the words that is not empty; "" when all are.
func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// figure is a number without zeros at its end.
func figure(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// clip cuts a text to at most this number of characters.
// It counts characters and not bytes, as the bounds of the formats do.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// What Slack takes: a header of 150 characters, a section of 3,000, fields of 2,000, ten of them.
const (
	slackHeader = 150
	slackText   = 3000
	slackField  = 2000
	slackFields = 10
)

// slackMessage and what it is made of are as much of Block Kit as is sent.
type slackMessage struct {
	Text   string       `json:"text"` // what a notification shows, and clients that know no blocks
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type   string        `json:"type"`
	Text   *slackWords   `json:"text,omitempty"`
	Fields []*slackWords `json:"fields,omitempty"`
	// Elements are the buttons of a block of actions.
	Elements []slackButton `json:"elements,omitempty"`
}

type slackWords struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// slackEscape keeps what others have written from being links and mentions.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackPlain escapes first and then cuts: escapes count towards the bound. One that is cut in
// its middle is shown as it is and does no harm.
func slackPlain(s string, most int) string { return clip(slackEscape.Replace(s), most) }

// slack is the notice as a message: a header, the sentence, the facts side by side, and the
// command in a block of code.
func (n *notice) slack() slackMessage {
	m := slackMessage{Text: slackPlain(n.title+": "+n.text, slackText), Blocks: []slackBlock{
		{Type: "header", Text: &slackWords{"plain_text", clip(n.title, slackHeader)}},
		{Type: "section", Text: &slackWords{"mrkdwn", slackPlain(firstOf(n.text, n.title), slackText)}},
	}}
	fields := slackBlock{Type: "section"}
	// 64 characters are left for the name of the fact.
	for _, f := range n.facts[:min(len(n.facts), slackFields)] {
		fields.Fields = append(fields.Fields, &slackWords{"mrkdwn", clip("*"+f[0]+"*\n"+slackPlain(f[1], slackField-64), slackField)})
	}
	if len(fields.Fields) > 0 {
		m.Blocks = append(m.Blocks, fields)
	}
	if n.command != "" {
		// A backquote would end the block of code; another character stands for it.
		m.Blocks = append(m.Blocks, slackBlock{Type: "section", Text: &slackWords{"mrkdwn", "```\n" + clip(slackEscape.Replace(strings.ReplaceAll(n.command, "`", "ʼ")), slackText-16) + "\n```"}})
	}
	return m
}

// teamsMessage and what it is made of are as much of an Adaptive Card as is sent.
type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	ContentURL  *string   `json:"contentUrl"` // null
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string         `json:"$schema"`
	Type    string         `json:"type"`
	Version string         `json:"version"`
	Body    []teamsElement `json:"body"`
	Actions []teamsAction  `json:"actions,omitempty"`
}

type teamsElement struct {
	Type     string      `json:"type"`
	Text     string      `json:"text,omitempty"`
	Size     string      `json:"size,omitempty"`
	Weight   string      `json:"weight,omitempty"`
	FontType string      `json:"fontType,omitempty"`
	Wrap     bool        `json:"wrap,omitempty"`
	Facts    []teamsFact `json:"facts,omitempty"`
}

type teamsFact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// teamsPlain keeps what others have written from being read as Markdown.
var teamsPlain = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`", "<", "&lt;", "#", `\#`, "~", `\~`)

// teams is the notice as a card, in the order of slack.
func (n *notice) teams() teamsMessage {
	card := teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: []teamsElement{
		{Type: "TextBlock", Text: n.title, Size: "Large", Weight: "Bolder", Wrap: true},
		{Type: "TextBlock", Text: teamsPlain.Replace(clip(firstOf(n.text, n.title), slackText)), Wrap: true},
	}}
	facts := teamsElement{Type: "FactSet"}
	for _, f := range n.facts {
		facts.Facts = append(facts.Facts, teamsFact{f[0], teamsPlain.Replace(f[1])})
	}
	if len(facts.Facts) > 0 {
		card.Body = append(card.Body, facts)
	}
	// A line each, for a card has no block of code.
	for line := range strings.Lines(n.command) {
		card.Body = append(card.Body, teamsElement{Type: "TextBlock", Text: teamsPlain.Replace(strings.TrimSpace(line)), FontType: "Monospace", Wrap: true})
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: card}}}
}
