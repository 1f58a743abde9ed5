package api

import (
	"fmt"
	"html/template"
	"net/http"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/byhand"
)

// HandLink is the body of POST /v1/order-links: a link that gives one order, once, without a
// token.
type HandLink struct {
	HandOrder
	Order  string `json:"order,omitempty"`   // stop, the default, or release
	ValidS int64  `json:"valid_s,omitempty"` // how long the link is valid; 0: 15 minutes
}

// HandLinkAnswer is a link. A GET shows what it does, a POST without a body does it.
type HandLinkAnswer struct {
	URL   string         `json:"url"`
	Until events.RFC3339 `json:"until"`
}

// shortLink is how long a link is valid when nothing else is said.
const shortLink = 15 * time.Minute

// serveLink is POST /v1/order-links.
func (h handOrders) serveLink(w http.ResponseWriter, r *http.Request) error {
	var asked HandLink
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	o, long, err := asked.order(r)
	if err != nil {
		return err
	}
	valid := time.Duration(asked.ValidS) * time.Second
	switch {
	case asked.ValidS == 0:
		valid = shortLink
	case valid < time.Second || asked.ValidS > int64(orders.MaxLink/time.Second):
		return &problem.Error{Status: http.StatusBadRequest, Field: "valid_s", Detail: fmt.Sprintf("valid_s is %d; want seconds from 1 to %d", asked.ValidS, int64(orders.MaxLink/time.Second))}
	}
	if asked.Order == byhand.Release {
		o.Order, long = byhand.Release, 0
	} else if asked.Order != "" && asked.Order != byhand.Stop {
		return &problem.Error{Status: http.StatusBadRequest, Field: "order", Detail: fmt.Sprintf("order %q: want %s or %s", asked.Order, byhand.Stop, byhand.Release)}
	}
	if err := o.Check(); err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	if err := narrow(visitOf(r.Context()).who, o); err != nil {
		return err
	}
	if h.parts.Orders.Proposals.Needs(o) {
		return &problem.Error{Status: http.StatusConflict, Detail: "an order of this scope needs two persons, and a link is of one: give it by POST " + ordersPath}
	}
	secrets, err := h.parts.Orders.Secrets()
	if err != nil {
		return &problem.Error{Status: http.StatusConflict, Detail: err.Error()}
	}
	book := h.parts.Orders.Book
	link := orders.Link{Order: *o, ForS: int64(long / time.Second), Until: events.RFC3339(book.Now().Add(valid))}
	if old := book.Get(o.ID()); old != nil {
		link.Revision = old.Revision
	}
	if record := visitOf(r.Context()).order; record != nil {
		record.Kind, record.Flow = "order.link", o.Order+" "+o.Scope.String()
	}
	return answer(w, HandLinkAnswer{URL: h.Scheme() + "://" + r.Host + linksPath + "/" + link.Token(secrets[0]), Until: link.Until})
}

// linkOf reads the link that a path names.
func (h handOrders) linkOf(r *http.Request) (*orders.Link, error) {
	secrets, err := h.parts.Orders.Secrets()
	if err != nil {
		return nil, handProblem(orders.ErrOther)
	}
	link, err := orders.ReadLink(r.PathValue("token"), secrets, h.parts.Orders.Book.Now())
	if err != nil {
		return nil, handProblem(orders.ErrOther)
	}
	var revision int64
	if old := h.parts.Orders.Book.Get(link.Order.ID()); old != nil {
		revision = old.Revision
	}
	if revision != link.Revision {
		return nil, handProblem(orders.ErrOther)
	}
	return link, nil
}

var linkPage = template.Must(template.New("link").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex"><title>weir: {{.What}} {{.Scope}}</title>
<h1>{{.What}} {{.Scope}}</h1><p>{{.Reason}}</p><p>In the name of {{.By}}. This link can be used once, until {{.Until}}.</p>
{{with .Except}}<p>Except: {{.}}</p>{{end}}<form method="post"><button style="font-size:2em">{{.What}} {{.Scope}}</button></form></html>
`))

// serveLinkPage is GET /v1/order-links/{token}. It changes nothing: programs that preview links open
// them.
func (h handOrders) serveLinkPage(w http.ResponseWriter, r *http.Request) error {
	link, err := h.linkOf(r)
	if err != nil {
		return err
	}
	o := &link.Order
	writeLinkPage(w, http.StatusOK, linkPage, map[string]any{"What": o.Order, "Scope": handText(o), "Reason": o.Reason, "By": o.By, "Until": link.Until.String(), "Except": byhand.ScopesText(o.Except)})
	return nil
}

// serveUse is POST /v1/order-links/{token}.
func (h handOrders) serveUse(w http.ResponseWriter, r *http.Request) error {
	link, err := h.linkOf(r)
	if err != nil {
		return err
	}
	return h.auditing.audited(w, withoutToken(r, linksPath), func(w http.ResponseWriter, r *http.Request) error {
		o := link.Order
		o.By += " (link)"
		return h.give(w, r, o, time.Duration(link.ForS)*time.Second, &link.Revision)
	})
}

// writeLinkPage answers with the page of a link, whose form sends to its own address.
func writeLinkPage(w http.ResponseWriter, status int, page *template.Template, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "same-origin") // no-referrer would send the form without its origin
	w.WriteHeader(status)
	_ = page.Execute(w, data)
}

// withoutToken returns a request by a link as the audit log has it, without the token.
func withoutToken(r *http.Request, path string) *http.Request {
	quiet := r.Clone(r.Context())
	quiet.URL.Path, quiet.URL.RawPath, quiet.URL.RawQuery = path+"/...", "", ""
	return quiet
}

// handText is what an order is about, for people.
func handText(o *byhand.Order) string {
	if len(o.Within) == 0 {
		return o.Scope.String()
	}
	return o.Scope.String() + " within " + byhand.ScopesText(o.Within)
}
