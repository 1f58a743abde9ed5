package app

import (
	"net/http"

	"weir/sink/check"
	"weir/sink/prom"
)

// gatewayRoutes are those of gateways that ask before they pass a request on.
func (a *App) gatewayRoutes() []route {
	authz := check.NewAuthz(a.timedAsk(prom.RouteAuthz), a.writeError, a.clock.Now)
	return []route{
		{"", check.AuthzPath + "{gateway}", intake, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			authz.ServeHTTP(w, r)
			return nil
		})},
	}
}

// fromGateways lets the server see what gateways ask as requests to weir.
func fromGateways(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, _ = check.FromGateway(r)
		next.ServeHTTP(w, r)
	})
}
