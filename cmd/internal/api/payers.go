package api

import (
	"fmt"
	"net/http"
	"slices"

	"weir/analyzer/budgets"
	"weir/cmd/internal/access"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
)

// Who pays: an event counts for the budgets of the tenant and the team that it names, so a principal
// of the access file may be bound to some, and weir writes its name into the event itself.

// ownPayers returns nil when the tenant and the team of the event are the visitor's own.
func ownPayers(who *access.Principal, ev *events.Event) error {
	for _, p := range [...]struct{ field, value, kind string }{{"tenant_id", ev.TenantID, access.Tenants}, {"team_id", ev.TeamID, access.Teams}} {
		if p.value != "" && !who.Pays(p.kind, p.value) {
			return &events.DecodeError{Code: events.CodeInvalidValue, Field: p.field, Offset: -1, Reason: fmt.Sprintf("%s %q is none of the %s of %s", p.field, p.value, p.kind, who.Name)}
		}
	}
	return nil
}

// withinPayers keeps a principal that is bound to tenants or teams to the ways in on which each event
// names them.
func withinPayers(who *access.Principal, rt *route) *problem.Error {
	if who.BoundToPayers() && (rt.need == sender || rt.need == asker) && !ownSources[rt.path] && rt.path != check.HookPath {
		return &problem.Error{Status: http.StatusForbidden, Detail: who.Name + " is bound to some tenants or teams, which this way in does not name; send events to /v1/events and checks to /v1/check"}
	}
	return nil
}

// sign writes into an event who pays for it, as far as weir knows: the name of the principal, where a
// budget counts by it, and the one tenant or team that the principal is bound to. It removes a name
// that the sender has written, and reports whether the event has changed.
func (v *visit) sign(byPrincipal bool, ev *events.Event) (changed bool) {
	name := ""
	if byPrincipal {
		name = v.name()
	}
	set := func(to *string, value string) {
		if *to != value {
			*to, changed = value, true
		}
	}
	set(&ev.Principal, name)
	if ev.TenantID == "" {
		set(&ev.TenantID, v.who.Only(access.Tenants))
	}
	if ev.TeamID == "" {
		set(&ev.TeamID, v.who.Only(access.Teams))
	}
	return changed
}

// byPrincipal reports whether a budget in force counts by principal.
func (f *folded) byPrincipal(v *visit) bool {
	if v.name() == "" {
		return false
	}
	limits, _ := f.inForce()
	return slices.ContainsFunc(limits.Budgets, func(b budgets.Budget) bool { return b.Scope.Kind == budgets.OfPrincipal })
}
