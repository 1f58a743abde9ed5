package byhand

import "weir/events"

// SelfTestAgent is the agent whose calls the order of the self-test binds.
const SelfTestAgent = "selftest-stopped"

// SelfTest returns the stop by which a process tests its switch. It binds one agent in flows that no sender
// may use. It is in force at that process alone: it is neither recorded nor sent to guards, and no list has it.
func SelfTest() Order {
	return Order{Order: Stop, Scope: Scope{Kind: events.ScopeFlow, ID: events.SelfTestFlows + "*"}, Within: []Scope{{Kind: events.ScopeAgent, ID: SelfTestAgent}}}
}

// IsSelfTest reports whether an order is one of the self-test.
func (o *Order) IsSelfTest() bool {
	return o.Scope.Kind == events.ScopeFlow && o.Scope.ID == events.SelfTestFlows+"*"
}
