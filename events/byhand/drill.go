package byhand

import "weir/events"

// DrillOf returns a stop for a drill of a scope: it binds calls of events.DrillFlow alone, so none.
func DrillOf(scope Scope) Order {
	o := Order{Order: Stop, Scope: Scope{Kind: events.ScopeFlow, ID: events.DrillFlow}}
	if scope.Kind != events.ScopeAll {
		o.Within = []Scope{scope}
	}
	return o
}

// IsDrill reports whether an order is one of a drill.
func (o *Order) IsDrill() bool {
	return o.Scope.Kind == events.ScopeFlow && o.Scope.ID == events.DrillFlow
}
