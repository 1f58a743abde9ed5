package webhook

import (
	"encoding/json"
	"html/template"
	"strings"
)

// Question is a message that asks persons to approve or deny, in the forms of Slack, Teams and mail. Its texts
// are as they came; each form escapes them.
type Question struct {
	Title, Text string
	facts       [][2]string
	// Approve and Deny are links; "" has no buttons.
	Approve, Deny string
	Command       string // that answers it where there are no buttons
}

// Fact adds a fact, unless its value is empty.
func (q *Question) Fact(name, value string) {
	n := notice{facts: q.facts}
	n.fact(name, value)
	q.facts = n.facts
}

// Subject is the value of the first fact.
func (q *Question) Subject() string {
	if len(q.facts) == 0 {
		return ""
	}
	return q.facts[0][1]
}

func (q *Question) notice() *notice {
	return &notice{title: q.Title, text: q.Text, facts: q.facts, command: q.Command}
}

// slackButton is a button that opens a link.
type slackButton struct {
	Type     string      `json:"type"`
	Text     *slackWords `json:"text"`
	URL      string      `json:"url"`
	Style    string      `json:"style"`
	ActionID string      `json:"action_id"`
}

// Slack is the body for an incoming webhook.
func (q *Question) Slack() []byte {
	m := q.notice().slack()
	if q.Approve != "" {
		m.Blocks = append(m.Blocks, slackBlock{Type: "actions", Elements: []slackButton{
			{"button", &slackWords{"plain_text", "Approve"}, q.Approve, "primary", "approve"}, {"button", &slackWords{"plain_text", "Deny"}, q.Deny, "danger", "deny"},
		}})
	}
	return encoded(m)
}

// teamsAction is a button that opens a link.
type teamsAction struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
	Style string `json:"style"`
}

// Teams is the body for the webhook of a workflow.
func (q *Question) Teams() []byte {
	m := q.notice().teams()
	if q.Approve != "" {
		m.Attachments[0].Content.Actions = []teamsAction{{"Action.OpenUrl", "Approve", q.Approve, "positive"}, {"Action.OpenUrl", "Deny", q.Deny, "destructive"}}
	}
	return encoded(m)
}

func encoded(m any) []byte {
	body, err := json.Marshal(m)
	if err != nil { // all of it is text
		panic(err)
	}
	return body
}

// Plain is the text of a mail.
func (q *Question) Plain() string {
	var b strings.Builder
	b.WriteString(q.Title + "\r\n\r\n" + q.Text + "\r\n\r\n")
	for _, f := range q.facts {
		b.WriteString(f[0] + ": " + f[1] + "\r\n")
	}
	if q.Approve != "" {
		b.WriteString("\r\nApprove: " + q.Approve + "\r\n\r\nDeny: " + q.Deny + "\r\n")
	}
	if q.Command != "" {
		b.WriteString("\r\n" + q.Command + "\r\n")
	}
	return b.String()
}

var questionPage = template.Must(template.New("question").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<h1>{{.Title}}</h1><p>{{.Text}}</p><table>{{range .Facts}}<tr><th align="left">{{index . 0}}</th><td>{{index . 1}}</td></tr>{{end}}</table>
{{if .Approve}}<p><a href="{{.Approve}}" style="padding:0.6em 1.2em;background:#1a7f37;color:#fff;text-decoration:none">Approve</a>
&nbsp; <a href="{{.Deny}}" style="padding:0.6em 1.2em;background:#b42318;color:#fff;text-decoration:none">Deny</a></p>
<p>Each link shows a page that asks once more. One answer counts.</p>{{end}}{{with .Command}}<pre>{{.}}</pre>{{end}}</html>
`))

// HTML is a mail with buttons.
func (q *Question) HTML() (string, error) {
	var b strings.Builder
	err := questionPage.Execute(&b, struct {
		*Question
		Facts [][2]string
	}{q, q.facts})
	return b.String(), err
}
