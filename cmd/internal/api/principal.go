package api

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"weir/cmd/internal/access"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
)

// need says what it takes to use a route.
// The order matters: everything from sender on changes what weir holds or works out,
// everything from operator on is an order of a person, see admit.
type need uint8

const (
	public   need = iota // nothing: whether weir is alive
	reader               // to observe; on loopback nothing
	follower             // the same, and every principal with the role ask needs it, too
	informed             // the same for every principal that may send
	sender               // to ingest; on loopback nothing, unless any sender is configured
	asker                // the same, to ask
	member               // a key of the group; to ask, in a group that has none
	trier                // the same, to observe what weir works out
	operator             // to operate
	reloader             // to be an administrator
)

// needs are the roles of which one is enough. public has none and is let in before it is
// looked at here.
var needs = [...]access.Roles{
	reader: access.Observe, follower: access.Observe | access.Ask, informed: access.Observe | access.Ingest,
	sender: access.Ingest, asker: access.Ask, member: access.Ask, trier: access.Observe, operator: access.Operate, reloader: access.Admin,
}

// door is what a listener knows of who comes in by it.
// Each port has its own: what loopback lets in without a token must not come in by another
// one.
type door struct {
	keeper   *access.Keeper
	loopback bool             // only this machine reaches it
	sessions *access.Sessions // of browsers; nil where no page is served
}

// newDoor rejects an address that other machines reach if no token protects it.
// what names the port in the error, with a space before it; "" for the main one.
func newDoor(keeper *access.Keeper, address, what string) (door, error) {
	d := door{keeper: keeper}
	var err error
	if d.loopback, err = loopback(address); err != nil {
		return d, err
	}
	if !d.loopback && !keeper.HasAdmin() && !keeper.HasIntake() {
		return d, fmt.Errorf("listen on %s%s: other machines reach this address, and no token keeps them out; "+
			"give an intake or an admin token file or an access file, or listen on 127.0.0.1", address, what)
	}
	return d, nil
}

// admit returns the sender of a request, or why the sender may not use the route. The
// principal is nil if the sender is unknown and the route allows that.
//
// Without tokens weir trusts its machine: every client on loopback may read, and may send
// and check as long as no intake token is set. Orders always need a known principal,
// because they have an author. With an access file there are no such exceptions (see
// decision 74).
func (d *door) admit(r *http.Request, n need) (*access.Principal, *problem.Error) {
	if n == public {
		return nil, nil
	}
	// What proves a member is over the body, see toMember.
	if keys, _ := d.keeper.MemberKeys(); n == member && len(keys) > 0 {
		if r.Header.Get(peer.Header) == "" {
			return nil, &problem.Error{Status: http.StatusUnauthorized, Detail: peer.ErrUnproven.Error()}
		}
		return nil, nil
	}
	// given distinguishes a wrong token from a missing one. The responses differ, for the
	// sake of a user who types one.
	p, given := d.who(r, n)
	orders := n >= operator
	free := d.loopback && !d.keeper.Strict() && !orders && (n < sender || !d.keeper.HasIntake())
	// May is true for nil, so p is looked at, too.
	switch {
	case p.May(needs[n]) && p != nil, p == nil && free:
		return p, nil
	case orders && !d.keeper.HasAdmin():
		return nil, &problem.Error{Status: http.StatusForbidden, Detail: "this changes something, and weir was started without --admin-token-file FILE; write a token into FILE and start weir with it"}
	// The response to a known principal names the missing role. A shared token that gives no
	// orders gets 401 and a hint to the admin token instead, since its holder may well have
	// both.
	case p != nil && (p.Named || !orders):
		return nil, &problem.Error{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not do this; it takes the role %v", p.Name, needs[n])}
	}
	detail := "send the token as: Authorization: Bearer <token>"
	switch {
	case given && orders:
		detail = "the token that was sent is not the admin token"
	case given:
		detail = "the token that was sent is none of this weir's"
	case d.cookie(r) != nil:
		detail = "the session has ended, or its token was revoked: sign in again"
	}
	return nil, &problem.Error{Status: http.StatusUnauthorized, Detail: detail}
}

// loopback reports whether only this machine reaches the address.
// A name other than localhost counts as reached by others, whatever it stands for: what it
// stands for may change while weir runs. So does "" for all addresses.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("listen on %q: %w; want host:port", address, err)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// visit is a request and its sender.
// It is in the context of the request. The handlers read the caller there and add the cost.
type visit struct {
	who  *access.Principal // nil: no known principal
	cost atomic.Int64      // events and asks that it turned out to hold

	orders bool // it may give orders; filled in on the route of hooks alone

	// order is filled in by the handler as it reads the request, and only by its goroutine.
	order *access.Record // what the audit log gets at its end; nil when it gives no order
}

// visitKey is the key of a visit in the context of its request.
type visitKey struct{}

// visitOf is the visit that a context belongs to.
// Without one it is a new visit without a principal, so that no caller has to check for nil.
func visitOf(ctx context.Context) *visit {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		return v
	}
	return new(visit)
}

// PrincipalOf is the name of the sender of the request that a context belongs to; "" if it is unknown.
func PrincipalOf(ctx context.Context) string { return principalName(visitOf(ctx).who) }

// principalName is the name of a principal, and "" without one.
func principalName(who *access.Principal) string {
	if who == nil {
		return ""
	}
	return who.Name
}

// name is the principal's own name; "" for an unknown principal, and for a token that many
// principals share.
func (v *visit) name() string {
	if v.who == nil || !v.who.Named {
		return ""
	}
	return v.who.Name
}

// entrance admits requests by the main port.
type entrance struct {
	door     *door
	clock    clock.Clock
	auditing *auditing
}

// host admits a visitor that may use a route, and charges it.
// An order that is rejected here goes to the audit log. After the request the rest of its
// cost is charged; one unit was taken before.
func (n *entrance) host(rt *route, w http.ResponseWriter, r *http.Request) error {
	who, e := n.enter(rt, r)
	if e != nil {
		if rt.need >= operator {
			n.auditing.refusedOrder(r, who, e)
		}
		return e
	}
	v := &visit{who: who}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	defer func() { who.Charge(int(v.cost.Load()) - 1) }()
	if rt.need >= operator {
		return n.auditing.audited(w, r, rt.serve)
	}
	return rt.serve(w, r)
}

// enter returns the visitor if it may use a route, and takes one unit of its rate.
func (n *entrance) enter(rt *route, r *http.Request) (*access.Principal, *problem.Error) {
	who, e := n.door.admit(r, rt.need)
	if e == nil {
		e = within(who, rt, r)
	}
	if e == nil {
		e = n.paid(who)
	}
	return who, e
}

// paid charges a request to its principal, or says when to come again.
// The error is 429 with the seconds to wait, rounded up so that who comes then is let in.
func (n *entrance) paid(who *access.Principal) *problem.Error {
	if who == nil {
		return nil
	}
	wait := who.Take(n.clock.Now())
	if wait == 0 {
		return nil
	}
	return &problem.Error{Status: http.StatusTooManyRequests, RetryAfter: max(1, int(math.Ceil(wait.Seconds()))),
		Detail: fmt.Sprintf("%s has used up its rate of events, asks and requests; wait, or have its rate raised in the access file", who.Name)}
}

// ownFlows are the routes for a principal that is bound to some flows. They name one flow, or
// check each flow themselves; all other routes report the flows of all principals.
// All other routes are closed to it, including new ones (see decision 74).
var ownFlows = map[string]bool{
	"/v1/events": true, "/v1/check": true, check.StreamPath: true, "/v1/verdicts": true, "/v1/limits": true, "/info": true, "/v1/overrides": true, check.HookPath: true, check.EvaluatePath: true,
	"/v1/flows": true, "/v1/flows/{id}": true, "/v1/flows/{id}/events": true,
	"/v1/flows/{id}/stop": true, "/v1/flows/{id}/release": true, "/v1/flows/{id}/grant": true, "/v1/flows/{id}/mark": true, "/v1/inspect/mark": true, "/v1/inspect/rules": true,
	"/v1/inspect/flow": true, "/v1/inspect/events": true, "/v1/inspect/stop": true, "/v1/inspect/release": true, "/v1/inspect/grant": true,
	"/v1/inspect/timeline": true, "/v1/inspect/view": true, "/v1/inspect/case": true, "/v1/inspect/scenarios": true, "/v1/inspect/play": true,
}

// ownSources are the routes on which each event says its source. Spans, runs and what
// gateways see say it for themselves or not at all.
var ownSources = map[string]bool{"/v1/events": true, "/v1/check": true, check.StreamPath: true}

// within keeps a principal to its own flows and sources, as far as the route shows them.
// Routes that name a flow, in the path or the query, are judged here. On the other routes of
// ownFlows the handler judges each event or verdict by itself (see owns and concerns).
func within(who *access.Principal, rt *route, r *http.Request) *problem.Error {
	if who.Bound() && rt.need != public {
		if !ownFlows[rt.path] {
			return &problem.Error{Status: http.StatusForbidden, Detail: who.Name + " is bound to some flows, and this is about all of them"}
		}
		flow, named := r.URL.Query().Get("flow"), strings.HasPrefix(rt.path, "/v1/inspect/") || rt.path == "/v1/verdicts"
		if strings.Contains(rt.path, "{id}") {
			flow, named = r.PathValue("id"), true
		}
		if named && flow != "" && !who.Flow(flow) {
			return notOwn(who, flow)
		}
	}
	if who.BoundToSources() && (rt.need == sender || rt.need == asker) && !ownSources[rt.path] {
		return &problem.Error{Status: http.StatusForbidden, Detail: who.Name + " is bound to some sources, which this way in does not tell; send events to /v1/events and asks to /v1/check"}
	}
	return withinPayers(who, rt)
}

// notOwn is 403 and not 404: whether there is such a flow is not said.
func notOwn(who *access.Principal, flow string) *problem.Error {
	return &problem.Error{Status: http.StatusForbidden, Detail: fmt.Sprintf("flow %q is none of those of %s", flow, who.Name)}
}

// owns returns nil when the event is about a flow and from a source of the visitor's own.
// The error is a DecodeError, since it is answered, and kept as a dead letter, like any
// fault of one event in a body of many.
func (v *visit) owns(ev *events.Event) error {
	if v.who == nil { // bound to nothing
		return nil
	}
	switch {
	case !v.who.Flow(ev.FlowKey()):
		return &events.DecodeError{Code: events.CodeInvalidValue, Field: "correlation_id", Offset: -1, Reason: fmt.Sprintf("flow %q is none of those of %s", ev.FlowKey(), v.who.Name)}
	case !v.who.Source(ev.Source):
		return &events.DecodeError{Code: events.CodeInvalidValue, Field: "source", Offset: -1, Reason: fmt.Sprintf("source %q is none of those of %s: write one that is, for example \"source\": %q", ev.Source, v.who.Name, v.who.SomeSource())}
	}
	if err := ownPayers(v.who, ev); err != nil {
		return err
	}
	// The costs of a flow count for its tree. A sender that names a foreign tree could use up
	// its budget and have other flows stopped.
	// The session of a prompt is such a flow as well: other flows may name it as their root.
	type named struct{ field, flow string }
	above := [...]named{{"parent_correlation_id", ev.ParentCorrelationID}, {"root_correlation_id", ev.RootCorrelationID}, {"conversation_id", ""}}
	if ev.CorrelationSource == events.CorrelationPrompt {
		above[2].flow = ev.ConversationID
	}
	for _, a := range above {
		if a.flow != "" && !v.who.Flow(a.flow) {
			return &events.DecodeError{Code: events.CodeInvalidValue, Field: a.field, Offset: -1, Reason: fmt.Sprintf("flow %q, to whose tree this event would belong, is none of those of %s", a.flow, v.who.Name)}
		}
	}
	return nil
}

// mayOperate reports whether the visitor may give orders.
// It answers for events that come in, where an order among many others is no route of its
// own.
func (n *entrance) mayOperate(r *http.Request) bool {
	_, e := n.door.admit(r, operator)
	return e == nil
}
