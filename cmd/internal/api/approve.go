package api

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"weir/analyzer/spelling"
	"weir/cmd/internal/access"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/sink/check"
)

// approvalPath is the path by which members of a group learn how a hold was decided.
const approvalPath = check.MemberPath + "/approval"

// approving serves the links by which persons answer holds.
type approving struct{ *Server }

func (p approving) routes() []route {
	return []route{
		{"GET", approvals.Path, reader, p.serveList},
		{"GET", approvals.Path + "/{token}", public, p.servePage},
		{"POST", approvals.Path + "/{token}", public, limited(answersAtOnce, p.serveAnswer)},
		{"POST", approvalPath, member, p.forwarding().toMember(p.takeDecision)},
	}
}

// answersAtOnce is how many answers may be under way.
const answersAtOnce = 16

// ApprovalList is the answer of GET /v1/approvals.
type ApprovalList struct {
	// Asks says that the switch file has approvals. Without it no person is asked, and nothing is listed.
	Asks    bool                 `json:"asks"`
	Waiting []approvals.Hold     `json:"waiting"`
	Decided []approvals.Decision `json:"decided"` // the last ones, the newest last
}

// serveList is GET /v1/approvals: what waits for a person, and how the last holds ended.
func (p approving) serveList(w http.ResponseWriter, _ *http.Request) error {
	out := ApprovalList{Waiting: []approvals.Hold{}, Decided: []approvals.Decision{}}
	if out.Asks = p.parts.Approvals != nil; out.Asks {
		waiting, decided := p.parts.Approvals.Waiting()
		out.Waiting, out.Decided = append(out.Waiting, waiting...), append(out.Decided, decided...)
	}
	return answer(w, out)
}

var approvalPage = template.Must(template.New("approval").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex"><title>weir: {{.Title}}</title><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{range .Facts}}<p><b>{{index . 0}}</b>: {{index . 1}}</p>{{end}}{{with .Action}}<form method="post">
{{if $.AsksName}}<p><label>Your name, for the record: <input name="name" maxlength="64" autocomplete="name"></label></p>{{end}}
<button style="font-size:2em">{{.}}</button></form><p>One answer counts.</p>{{end}}</html>
`))

// page is what a person sees at a link.
type page struct {
	Title, Text string
	Facts       [][2]string
	Action      string // of the button; "" for none
	AsksName    bool
}

func (p *page) write(w http.ResponseWriter, status int) {
	writeLinkPage(w, status, approvalPage, p)
}

// failure is the page and the status about an error of a link.
func failure(err error) (*page, int) {
	_, used := errors.AsType[*approvals.UsedError](err)
	switch {
	case errors.Is(err, approvals.ErrLink):
		return &page{Title: "Not a link of this weir", Text: "Copy the whole link from the message."}, http.StatusNotFound
	case errors.Is(err, approvals.ErrExpired):
		return &page{Title: "The link has expired", Text: "Nothing was changed. Look for a newer message, or decide by the command line or the page of weir."}, http.StatusGone
	case used:
		return &page{Title: "Already decided", Text: spelling.Capital(err.Error()) + "."}, http.StatusGone
	case errors.Is(err, approvals.ErrOver):
		return &page{Title: "Nothing waits any more", Text: spelling.Capital(err.Error()) + "."}, http.StatusGone
	case errors.Is(err, approvals.ErrBusy):
		return &page{Title: "One moment", Text: spelling.Capital(err.Error()) + "."}, http.StatusConflict
	}
	e := explain(err)
	if e == nil {
		e = &problem.Error{Status: http.StatusServiceUnavailable, Detail: "the request was cut off"}
	}
	return &page{Title: "Not carried out", Text: spelling.Capital(e.Detail) + "."}, e.Status
}

// open returns what the link of a path is about.
func (p approving) open(r *http.Request) (*approvals.Link, *approvals.Hold, error) {
	if p.parts.Approvals == nil {
		return nil, nil, approvals.ErrLink
	}
	return p.parts.Approvals.Open(r.PathValue("token"))
}

// servePage is GET /v1/approvals/{token}. It changes nothing: scanners of mail and previews open links.
func (p approving) servePage(w http.ResponseWriter, r *http.Request) error {
	link, h, err := p.open(r)
	if err != nil {
		shown, status := failure(err)
		shown.write(w, status)
		return nil
	}
	verb, does := spelling.Capital(link.Action), link.Does(h, p.parts.Approvals.Settings.For)
	shown := &page{Title: verb + " " + h.Kind + " " + h.Subject, Text: h.Text, Action: verb, AsksName: p.parts.Approvals.AsksName(link),
		Facts: [][2]string{{verb, does}, {"Asked", link.Tier}, {"Order", h.ID}}}
	if h.Agent != "" {
		shown.Facts = append(shown.Facts, [2]string{"Agent", h.Agent})
	}
	shown.write(w, http.StatusOK)
	return nil
}

// longestName is how much of a name that a person gives is kept, in bytes.
const longestName = 64

// serveAnswer is POST /v1/approvals/{token}: the hold is approved or denied, once.
func (p approving) serveAnswer(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	link, h, err := p.open(r)
	quiet := withoutToken(r, approvals.Path)
	if err != nil {
		shown, status := failure(err)
		if link != nil {
			record := p.auditing.record(quiet, nil, access.Refused)
			record.Kind, record.Event, record.Flow, record.Status, record.Detail = "approval."+link.Action, link.Hold, "", status, "link of tier "+link.Tier+": "+err.Error()
			p.auditing.auditRefused(record)
		}
		shown.write(w, status)
		return nil
	}
	given := nameOf(body)
	return p.auditing.audited(w, quiet, func(w http.ResponseWriter, r *http.Request) error {
		record := visitOf(r.Context()).order
		record.Kind, record.Event, record.Flow, record.By = "approval."+link.Action, h.ID, h.Subject, p.parts.Approvals.Author(link, given)
		record.Detail = "link of tier " + link.Tier
		did, err := p.parts.Approvals.Answer(r.Context(), link, given)
		if err != nil {
			shown, status := failure(err)
			record.Detail += ": " + err.Error()
			shown.write(w, status)
			return nil
		}
		(&page{Title: spelling.Capital(did.Outcome), Text: spelling.Capital(h.Kind) + " " + h.Subject + ": " + link.Does(h, p.parts.Approvals.Settings.For) + ".", Facts: [][2]string{{"By", did.By}, {"At", did.Time.String()}}}).write(w, http.StatusOK)
		return nil
	})
}

// nameOf is the name in a form, without signs that a terminal would obey.
func nameOf(form []byte) string {
	values, err := url.ParseQuery(string(form))
	if err != nil {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '/' {
			return -1
		}
		return r
	}, strings.TrimSpace(values.Get("name")))
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "")
	}
	return name
}

// propose asks the tiers about a stop that waits for its second person.
func (p approving) propose(q *orders.Proposal) {
	if p.parts.Approvals != nil {
		p.parts.Approvals.Propose(q)
	}
}
