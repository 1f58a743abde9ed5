package api

import (
	"net/http"

	"weir/cmd/internal/access"
	"weir/cmd/internal/problem"
	"weir/events/byhand"
)

// whoamiPath is where a sender asks what weir takes it for.
const whoamiPath = "/v1/whoami"

// whoami answers senders. It is public, because a sender that may do nothing asks as well.
type whoami struct{ door *door }

func (a *whoami) routes() []route { return []route{{"GET", whoamiPath, public, a.serve}} }

// Whoami is a sender as weir knows it, and what it may do.
type Whoami struct {
	Name  string   `json:"name,omitempty"` // of the principal; absent for a sender without a token or a certificate
	Named bool     `json:"named"`          // orders carry this name
	Roles []string `json:"roles"`
	access.Bounds
	Orders   []byhand.Scope `json:"orders,omitempty"` // the scopes that its orders have to be within; absent: all
	NoOrders string         `json:"no_orders,omitempty"`
}

// byRole is a need of each role, in the order of their names. What weir would admit is the answer, so
// that it is right for loopback and for files of tokens as well.
var byRole = [...]struct {
	role access.Roles
	need need
}{{access.Ingest, sender}, {access.Ask, asker}, {access.Observe, reader}, {access.Operate, operator}, {access.Admin, reloader}}

// serve is GET /v1/whoami. A token that weir does not know is 401.
func (a *whoami) serve(w http.ResponseWriter, r *http.Request) error {
	p, given := a.door.who(r, reader)
	out := Whoami{Roles: []string{}, Bounds: p.Bounds(), Orders: p.Orders()}
	for _, b := range byRole {
		if _, refused := a.door.admit(r, b.need); refused == nil {
			out.Roles = append(out.Roles, b.role.String())
		}
	}
	switch {
	case p == nil && given:
		return &problem.Error{Status: http.StatusUnauthorized, Detail: "the token that was sent is none of this weir's"}
	case p == nil && len(out.Roles) == 0:
		return &problem.Error{Status: http.StatusUnauthorized, Detail: "send the token as: Authorization: Bearer <token>"}
	}
	if p != nil {
		out.Name, out.Named = p.Name, p.Named
	}
	out.NoOrders = a.door.noOrders(p)
	return answer(w, out)
}
