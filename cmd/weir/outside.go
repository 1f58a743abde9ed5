package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/standing"
	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/byhand"
)

// place is where a flow was found, and what refuses its calls beside the orders about it: orders by
// hand about scopes, and budgets over flows.
type place struct {
	live bool // a running weir has answered
	// reads and changes are the flags of commands that read from it and that change something in it.
	reads, changes string
	byHand         []handReach
	used           []accountReach
	unknown        []string    // what could not be read
	tree           agents.View // the tree of the flow; none where no rule about trees is on
	// waiting is what it costs the flow to wait; nil for nothing.
	waiting *events.Waiting
}

// reach is how far an order or an account reaches into a flow.
type reach int

const (
	outside reach = iota
	perhaps       // what is known of the flow does not decide it
	partly        // some of its calls
	wholly
)

// handReach is an active order by hand.
type handReach struct {
	api.HandOrderView

	reach reach
}

// accountReach is an account of a budget that has nothing left.
type accountReach struct {
	budgets.View

	reach reach
}

// mostAccounts is how many accounts one answer of weir has at most.
const mostAccounts = 5000

// placeOf reads the orders by hand of a running weir, and the accounts that are used up.
func placeOf(ctx context.Context, k known, v *analyzer.View) place {
	in := place{waiting: v.Waiting}
	if c, live := k.(*client.Client); live {
		in.live = true
		in.readOrders(ctx, c, v)
	}
	// What cannot be read is left out: it is about what is allowed.
	if tree, ok, err := k.Agent(ctx, events.ScopeTree, cmp.Or(v.Root, v.Flow)); ok && err == nil {
		in.tree = tree
	}
	list, err := k.Budgets(ctx, pump.BudgetQuery{Limit: mostAccounts})
	switch {
	case err != nil:
		in.unknown = append(in.unknown, "the budgets over flows")
	case !hasUsedUp(&list):
		in.unknown = append(in.unknown, "some accounts of budgets")
	}
	if len(list.Elsewhere) > 0 {
		in.unknown = append(in.unknown, "the accounts of budgets at "+strings.Join(list.Elsewhere, ", ")+" (weir budgets ls --server)")
	}
	for i := range list.Budgets {
		a := &list.Budgets[i]
		if !usedUp(a) {
			continue
		}
		if r := reachOf(a.Scope, func(value string) bool { return budgets.Value(value) == a.Value }, v); r != outside {
			if a.Measure == budgets.Spawns.String() || a.Measure == budgets.BackgroundSpawns.String() {
				r = min(r, partly)
			}
			in.used = append(in.used, accountReach{*a, r})
		}
	}
	slices.SortStableFunc(in.used, func(a, b accountReach) int { return cmp.Compare(b.reach, a.reach) })
	return in
}

// noticeOutside says below a list of flows that their states are those of rules alone, where a running
// weir refuses calls for other reasons. What cannot be read is left out.
func noticeOutside(ctx context.Context, env *cli.Env, k known) {
	if c, live := k.(*client.Client); live {
		var list api.HandOrderList
		if c.Get(ctx, "/v1/orders", &list) == nil && slices.ContainsFunc(list.Orders, func(o api.HandOrderView) bool { return o.Active }) {
			env.Notice("orders by hand refuse calls as well, which STATUS does not show: weir orders ls")
		}
		if used, err := k.Budgets(ctx, pump.BudgetQuery{Limit: mostAccounts}); err == nil && slices.ContainsFunc(used.Budgets, func(a budgets.View) bool { return usedUp(&a) }) {
			env.Notice("budgets that are used up refuse calls as well, which STATUS does not show: weir budgets ls")
		}
	}
}

func (in *place) readOrders(ctx context.Context, c *client.Client, v *analyzer.View) {
	var list api.HandOrderList
	if c.Get(ctx, "/v1/orders", &list) != nil {
		in.unknown = append(in.unknown, "the orders by hand")
	}
	for i := range list.Orders {
		o := &list.Orders[i]
		if r := handReachOf(o, v); o.Active && r != outside {
			in.byHand = append(in.byHand, handReach{*o, r})
		}
	}
	slices.SortStableFunc(in.byHand, func(a, b handReach) int { return cmp.Compare(b.reach, a.reach) })
}

// hasUsedUp reports whether a list of accounts, the fullest of which come first, has all that are used up.
func hasUsedUp(list *pump.BudgetList) bool {
	if !list.Truncated {
		return true
	}
	n := len(list.Budgets)
	if n == 0 || list.Scanned >= pump.MaxScanned {
		return false
	}
	last := &list.Budgets[n-1]
	return last.Left == nil || *last.Left > 0
}

// usedUp reports whether an account refuses checks.
func usedUp(a *budgets.View) bool {
	return a.Action != events.Warn && (a.State == "used_up" || a.Left != nil && *a.Left == 0)
}

// handReachOf is how far an order by hand reaches: no further than each of its scopes.
func handReachOf(o *api.HandOrderView, v *analyzer.View) reach {
	of := func(s byhand.Scope) reach {
		return reachOf(string(s.Kind), func(value string) bool { return byhand.Glob(s.ID, value) }, v)
	}
	r := of(o.Scope)
	for _, s := range o.Within {
		r = min(r, of(s))
	}
	for _, s := range o.Except {
		switch of(s) {
		case wholly:
			return outside
		case outside: // it excepts no call of this flow
		default:
			r = min(r, partly)
		}
	}
	return r
}

// reachOf is how far a scope reaches into a flow; is reports whether a value is the scope's.
func reachOf(scope string, is func(value string) bool, v *analyzer.View) reach {
	if scope == "all" {
		return wholly
	}
	whole, other := "", perhaps
	switch scope {
	case "flow":
		whole, other = v.Flow, outside
	case "tree":
		if whole = cmp.Or(v.Root, v.Flow); v.Root == "" {
			other = outside
		}
	case "service":
		whole = v.Service
	case "agent":
		if slices.ContainsFunc(v.Parties, func(p analyzer.PartyView) bool { return is(p.Name) }) {
			return partly
		}
	default:
		i := slices.IndexFunc(v.Payers, func(p analyzer.PayerView) bool { return p.Scope == scope })
		if i < 0 {
			return perhaps
		}
		// One flow uses several models, and several principals send its events.
		if whole = v.Payers[i].Value; scope != "model" && scope != "principal" {
			other = outside
		}
	}
	if whole != "" && is(whole) {
		return wholly
	}
	return other
}

// headline is the state of a flow in a word, and what that means, by all that refuses its calls.
func (in *place) headline(v *analyzer.View) (status cli.Cell, means string) {
	status, means = statusCell(v.Status), statusText(v.Status, in.live)
	refused := v.Status == "stopped" || v.Status == "held" || v.Status == "armed"
	if len(in.byHand) > 0 {
		o := &in.byHand[0]
		by := fmt.Sprintf("by %s until %s, reason: %s", o.By, o.Expires, strings.TrimSuffix(o.Reason, "."))
		switch {
		case o.reach == wholly:
			return cli.Cell{Text: "stopped by hand", Paint: cli.Bad}, ": " + by
		case o.reach == partly && !refused:
			return cli.Cell{Text: "stopped by hand in part", Paint: cli.Bad}, ": calls of " + scopeText(&o.HandOrderView) + ", " + by
		}
	}
	if refused {
		if calls := heldCalls(v); calls != "" {
			status.Text, means = "held in part", ": "+calls+" wait until a person grants more"
		}
		return status, means
	}
	if len(in.used) > 0 && in.used[0].reach >= partly {
		a := &in.used[0]
		status = cli.Cell{Text: "out of budget", Paint: cli.Bad}
		if a.reach == partly {
			status.Text += " in part"
		}
		return status, ": " + a.name() + " is used up, and refuses " + a.calls()
	}
	if len(in.byHand) > 0 {
		means += "; an order by hand may refuse some of its calls"
	}
	if len(in.used) > 0 {
		means += "; a budget that is used up may refuse some of its calls"
	}
	return status, means
}

// heldCalls lists the calls that wait, where others do not; "" where all wait, or none.
func heldCalls(v *analyzer.View) string {
	if v.Status != "held" {
		return ""
	}
	var calls []string
	for i := range v.Orders {
		o := &v.Orders[i]
		if !o.Stops() || o.Effective == events.EffectiveNext || o.Mode == events.ModeShadow {
			continue
		}
		if o.Action != events.Hold || o.Match == nil {
			return ""
		}
		text := matchText(o.Match)
		if text == "every call" {
			return ""
		}
		if !slices.Contains(calls, text) {
			calls = append(calls, text)
		}
	}
	return strings.Join(calls, ", and ")
}

// nothing reports whether it is known that nothing but rules refuses calls of the flow.
func (in *place) nothing() bool {
	return len(in.byHand) == 0 && len(in.used) == 0 && len(in.unknown) == 0
}

// write writes what refuses calls of the flow beside rules.
func (in *place) write(env *cli.Env, b *strings.Builder) {
	for i := range in.byHand {
		o := &in.byHand[i]
		cli.Fprintf(b, "\n%s  by hand: %s until %s\n  %s\n", env.Painted("stop", cli.Bad), scopeText(&o.HandOrderView), o.Expires, o.Reason)
		if o.reach == perhaps {
			b.WriteString("  unknown   whether it concerns this flow: that is decided at each call\n")
		}
		cli.Fprintf(b, "  given by  %s; weir orders ls lists such orders, weir release ends one\n", o.By)
	}
	const shown = 5
	for i := range in.used[:min(shown, len(in.used))] {
		a := &in.used[i]
		cli.Fprintf(b, "\n%s  %s is used up: %s\n", env.Painted(string(a.Action), cli.Bad), a.name(), a.figures())
		cli.Fprintf(b, "  refuses   %s\n", a.calls())
		if a.reach == perhaps {
			cli.Fprintf(b, "  unknown   whether it concerns this flow, which has named no such %s yet\n", a.Scope)
		}
		if !a.End.IsZero() {
			cli.Fprintf(b, "  until     %s\n", a.End)
		}
		if in.waiting != nil && a.Action == events.Hold {
			cli.Fprintf(b, "  waiting   %s\n", strings.TrimPrefix(standing.WaitingText(in.waiting), ". "))
		}
		cli.Fprintf(b, "  grant     %s\n", a.grant())
	}
	if more := len(in.used) - shown; more > 0 {
		cli.Fprintf(b, "\n%s used up: weir budgets ls lists them.\n", cli.Count(int64(more), "more account"))
	}
	if len(in.unknown) > 0 {
		cli.Fprintf(b, "\nCould not be read: %s. They may refuse calls as well.\n", strings.Join(in.unknown, ", "))
	}
}

// name is the account as people read it.
func (a *accountReach) name() string {
	if a.Scope == "all" {
		return "budget " + a.Budget
	}
	return fmt.Sprintf("budget %s of %s %s", a.Budget, a.Scope, a.Value)
}

func (a *accountReach) figures() string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	text := number(a.Spent)
	if a.Reserved > 0 {
		text += " and " + number(a.Reserved) + " reserved"
	}
	if a.Limit != nil {
		text += " of " + number(*a.Limit)
	}
	return text + " " + a.Measure
}

// calls are the calls that the account refuses.
func (a *accountReach) calls() string {
	what := "calls"
	switch a.Measure {
	case budgets.Spawns.String():
		what = "calls to agents"
	case budgets.BackgroundSpawns.String():
		what = "calls to agents in the background"
	}
	switch a.Scope {
	case "agent":
		return what + " by " + a.Value
	case "tool", "model":
		return what + " of " + a.Scope + " " + a.Value
	}
	if a.reach == perhaps {
		return what + " of " + a.Scope + " " + a.Value
	}
	return "its " + what
}

// grant is the command that lets the account spend more.
func (a *accountReach) grant() string {
	return "weir budgets grant " + quoted(a.Budget) + " " + quoted(a.Value) + " AMOUNT --reason TEXT"
}

// next prints the commands for what refuses calls beside rules. What may not concern the flow at all is left out
// where a rule has an order about it.
func (in *place) next(ordered bool, say func(command, what string)) {
	if !in.live {
		return
	}
	for i := range in.byHand[:min(1, len(in.byHand))] {
		if ordered && in.byHand[i].reach == perhaps {
			continue
		}
		say("weir orders ls"+in.reads, "list the orders by hand")
		say(releaseOf(&in.byHand[i].HandOrderView)+in.changes, "end this order by hand")
	}
	for i := range in.used[:min(1, len(in.used))] {
		if ordered && in.used[i].reach == perhaps {
			continue
		}
		if in.used[i].Action == events.Hold {
			say("weir approvals"+in.reads, "list the work that waits for a person, and who was asked")
		}
		say(in.used[i].grant()+in.changes, "let the account spend more, until its window ends")
		say("weir budgets ls"+in.reads, "list what each budget has left")
	}
}
