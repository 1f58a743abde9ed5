package api

import (
	"net/http"

	"weir/cmd/internal/problem"
	"weir/sink/check"
	"weir/sink/prom"
)

// gatewayRoutes are those of gateways that ask before they pass a request on.
func (a *Server) gatewayRoutes() []route {
	if !a.o.Authz {
		return nil
	}
	authz := check.NewAuthz(a.timedAsk(prom.RouteAuthz), a.writeError, a.clock.Now)
	return []route{
		{"", check.AuthzPath + "{gateway}", sender, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			// Here a GET counts a call, which pages of other origins may send otherwise.
			if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
				return &problem.Error{Status: http.StatusForbidden, Detail: "a page of another origin may not send this; a gateway whose clients are such pages has to show a token"}
			}
			authz.ServeHTTP(w, r)
			return nil
		})},
	}
}

// fromGateways lets the server see what gateways ask as requests to weir. Who shows a
// token is a gateway; without tokens nobody can tell one from a page in a browser.
func (a *Server) fromGateways(next http.Handler) http.Handler {
	if !a.o.Authz {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isAdmin, isIntake := a.tokens.has(r.Header.Get(check.TokenHeader))
		r, _ = check.FromGateway(r, isAdmin || isIntake)
		next.ServeHTTP(w, r)
	})
}
