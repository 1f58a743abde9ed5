package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/pump"
	"weir/events"
)

// whereIn names the flow that a call is about.
type whereIn struct {
	Flow  string `json:"flow_id,omitempty" jsonschema:"correlation id of the flow; found by agent_id when not given"`
	Agent string `json:"agent_id,omitempty" jsonschema:"the agent that asks; its newest stopped flow is taken when flow_id is not given"`
}

// Order is an active order as an agent needs it.
type Order struct {
	Rule         string         `json:"rule"`
	Reason       events.Reason  `json:"reason_code"`
	Action       events.Action  `json:"action"`
	Effective    string         `json:"effective"` // now, or next: from the next call on
	Message      string         `json:"message"`
	AgentMessage string         `json:"agent_message,omitempty"`
	Limit        *float64       `json:"limit,omitempty"`
	Observed     *float64       `json:"observed,omitempty"`
	Unit         events.Unit    `json:"unit,omitempty"`
	Until        events.RFC3339 `json:"until,omitzero"`
	Scope        events.Scope   `json:"scope"`
	Match        *events.Match  `json:"match,omitempty"` // which calls it refuses; all when absent
}

// Left is the remaining part of one limit.
type Left struct {
	Rule  string      `json:"rule"`
	Left  float64     `json:"left"`
	Limit float64     `json:"limit"`
	Unit  events.Unit `json:"unit"`
}

// stoppedAnswer is the answer of why_was_i_stopped and of remaining_limits.
type stoppedAnswer struct {
	Flow   string   `json:"flow_id,omitempty"`
	Status string   `json:"status"` // as in the list of flows; "none" when no flow is found
	Orders []Order  `json:"orders"`
	Left   []Left   `json:"remaining"`
	Others []string `json:"other_stopped_flows,omitempty"`
}

// addAgentTools adds the tools by which an agent learns how it stands.
func (s *Server) addAgentTools() {
	add(s, &mcp.Tool{Name: "why_was_i_stopped", Title: "Why was I stopped?", Annotations: reads(),
		Description: "Returns the active orders against a flow and its agent: which rule, why, until when, what to do instead, and what is left of each limit."}, s.whyStopped)
	add(s, &mcp.Tool{Name: "remaining_limits", Title: "What is left?", Annotations: reads(),
		Description: "Returns what is left of each budget of a flow (calls, tokens, dollars, seconds), the scarcest first."}, s.remaining)
	add(s, &mcp.Tool{Name: "list_flows", Title: "List flows", Annotations: reads(),
		Description: "Lists flows with their status and the limit that is nearest, newest first."}, s.listFlows)
}

// stopped reports whether a flow of this status is refused something.
func stopped(status string) bool { return status == "stopped" || status == "held" || status == "armed" }

// locate returns the flow that is meant, and the other stopped flows that may be.
func (s *Server) locate(ctx context.Context, c *client.Client, in whereIn) (v analyzer.View, found bool, others []string, err error) {
	if in.Flow != "" {
		v, found, err = c.View(ctx, in.Flow)
		if err == nil && !found {
			err = fmt.Errorf("weir knows no flow %q; list_flows lists the flows that it knows", in.Flow)
		}
		return v, found, nil, err
	}
	agent := in.Agent
	if agent == "" {
		agent = s.o.Agent
	}
	list, err := c.Flows(ctx, pump.FlowQuery{Text: agent, Limit: 200})
	if err != nil {
		return v, false, nil, err
	}
	var names []string
	for i := range list.Flows {
		f := &list.Flows[i]
		if stopped(f.Status) && (agent == "" || slices.Contains(f.Agents, agent) || f.Parties > pump.MaxListed) {
			names = append(names, f.Flow)
		}
	}
	if len(names) == 0 {
		return v, false, nil, nil
	}
	v, found, err = c.View(ctx, names[0])
	return v, found, names[1:], err
}

func (s *Server) whyStopped(ctx context.Context, c *client.Client, in whereIn) (string, any, error) {
	v, found, others, err := s.locate(ctx, c, in)
	if err != nil {
		return "", nil, err
	}
	out := stoppedAnswer{Status: "none", Orders: []Order{}, Left: []Left{}, Others: others}
	if found {
		out.Flow, out.Status = v.Flow, v.Status
		out.Orders, out.Left = ordersOf(v.Orders), leftOf(v.Counters)
	}
	agent := in.Agent
	if agent == "" {
		agent = s.o.Agent
	}
	if agent != "" {
		a, known, err := c.Agent(ctx, events.ScopeAgent, agent)
		if err != nil && !boundToFlows(err) {
			return "", nil, err
		}
		if known {
			out.Orders = append(out.Orders, ordersOf(a.Orders)...)
		}
	}
	return sayStopped(&out), out, nil
}

// boundToFlows reports whether an error means that the token is bound to some flows, which may
// not read about agents.
func boundToFlows(err error) bool {
	e, ok := err.(*client.StatusError)
	return ok && e.Status == 403
}

func (s *Server) remaining(ctx context.Context, c *client.Client, in whereIn) (string, any, error) {
	if in.Flow == "" {
		return "", nil, fmt.Errorf("flow_id is missing; list_flows lists flows")
	}
	v, _, _, err := s.locate(ctx, c, in)
	if err != nil {
		return "", nil, err
	}
	out := stoppedAnswer{Flow: v.Flow, Status: v.Status, Orders: ordersOf(v.Orders), Left: leftOf(v.Counters)}
	if v.Root != "" {
		// The tree has budgets of its own. A token bound to flows may not read them.
		tree, known, err := c.Agent(ctx, events.ScopeTree, v.Root)
		if err != nil && !boundToFlows(err) {
			return "", nil, err
		}
		if known {
			out.Left = append(out.Left, leftOf(tree.Counters)...)
			sortLeft(out.Left)
		}
	}
	return sayLeft(&out), out, nil
}

// ordersOf are the orders that bind; an order in shadow mode binds no call.
func ordersOf(list []events.Verdict) []Order {
	out := []Order{}
	for i := range list {
		if v := &list[i]; v.Mode == events.ModeEnforce {
			out = append(out, Order{Rule: v.RuleID, Reason: v.Reason, Action: v.Action, Effective: v.Effective, Message: v.Message, AgentMessage: v.AgentMessage,
				Limit: v.Limit, Observed: v.Observed, Unit: v.Unit, Until: v.ExpiresAt, Scope: v.Scope, Match: v.Match})
		}
	}
	return out
}

// leftOf is the remaining part of each limit that counts down, the scarcest first.
func leftOf(counters []rules.CounterView) []Left {
	out := []Left{}
	for _, c := range counters {
		if c.Left != nil {
			out = append(out, Left{c.Rule, *c.Left, c.Limit, c.Unit})
		}
	}
	sortLeft(out)
	return out
}

// sortLeft puts those first of which the smallest share is left.
func sortLeft(list []Left) {
	share := func(l Left) float64 { return l.Left / max(l.Limit, 1e-9) }
	slices.SortStableFunc(list, func(a, b Left) int {
		switch x, y := share(a), share(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// sayStopped says in sentences what stands.
func sayStopped(a *stoppedAnswer) string {
	var b strings.Builder
	if len(a.Orders) == 0 {
		if a.Flow == "" {
			return "No stopped flow is known. Nothing stops your next call."
		}
		cli.Fprintf(&b, "Flow %s is %s and has no active order.", a.Flow, a.Status)
	} else {
		cli.Fprintf(&b, "Flow %s is %s.", a.Flow, a.Status)
	}
	for i := range a.Orders {
		o := &a.Orders[i]
		cli.Fprintf(&b, "\n%s (%s): %s", o.Action, o.Rule, o.Message)
		if o.Until != 0 {
			cli.Fprintf(&b, " Until %s.", o.Until)
		}
		if o.AgentMessage != "" {
			cli.Fprintf(&b, "\nDo: %s", o.AgentMessage)
		}
	}
	if len(a.Left) > 0 {
		cli.Fprintf(&b, "\n%s", sayLeft(a))
	}
	if len(a.Others) > 0 {
		cli.Fprintf(&b, "\n%d more flows are stopped.", len(a.Others))
	}
	return b.String()
}

// sayLeft gives the remaining parts in one sentence.
func sayLeft(a *stoppedAnswer) string {
	if len(a.Left) == 0 {
		return "No limit in force counts what this flow uses."
	}
	var parts []string
	for _, l := range a.Left {
		parts = append(parts, fmt.Sprintf("%g of %g %s (%s)", l.Left, l.Limit, l.Unit, l.Rule))
	}
	return "Left: " + strings.Join(parts, ", ") + "."
}

// flowsIn says which flows are wanted.
type flowsIn struct {
	Query   string `json:"query,omitempty" jsonschema:"part of the id of a flow, of its service or of the name of one of its agents"`
	Stopped bool   `json:"stopped_only,omitempty" jsonschema:"list only flows that an order stops"`
	Nearest bool   `json:"nearest_first,omitempty" jsonschema:"list those first that are nearest to a limit"`
	Limit   int    `json:"limit,omitempty" jsonschema:"at most so many flows, from 1 to 500; 20 when not given"`
}

func (s *Server) listFlows(ctx context.Context, c *client.Client, in flowsIn) (string, any, error) {
	limit, err := limitOf(in.Limit, 20)
	if err != nil {
		return "", nil, err
	}
	q := pump.FlowQuery{Text: in.Query, Limit: limit}
	if in.Nearest {
		q.Order = pump.Nearby
	}
	if in.Stopped {
		q.Limit = maxList
	}
	list, err := c.Flows(ctx, q)
	if err != nil {
		return "", nil, err
	}
	if in.Stopped {
		list.Flows = slices.DeleteFunc(list.Flows, func(f pump.FlowSummary) bool { return !stopped(f.Status) })
		list.Flows = list.Flows[:min(len(list.Flows), limit)]
	}
	var b strings.Builder
	b.WriteString(cli.Count(int64(len(list.Flows)), "flow"))
	for i := range list.Flows {
		f := &list.Flows[i]
		cli.Fprintf(&b, "\n%s  %s  %s, %s", f.Flow, f.Status, cli.Count(f.Hops, "call"), cli.Count(f.ToolCalls, "tool call"))
		if n := f.Nearest; n != nil {
			cli.Fprintf(&b, ", %.0f %% of %s", 100*n.Near, n.Rule)
		}
	}
	return b.String(), list, nil
}

// maxList is how many rows a list has at most: a model reads all of them.
const maxList = 500

// limitOf reads how many rows are wanted.
func limitOf(asked, usual int) (int, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > maxList:
		return 0, fmt.Errorf("limit is %d; want 1 to %d", asked, maxList)
	}
	return asked, nil
}
