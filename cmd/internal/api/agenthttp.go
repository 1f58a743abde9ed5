package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"weir/analyzer/agents"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
)

// The sizes of lists of agents and of notes.
const (
	defaultAgents = 50
	maxAgents     = 5000
)

// agentPages serves what the agent stage has, and takes notes and requests for help.
type agentPages struct {
	log      Log
	orders   *orderLog
	door     *door
	auditing *auditing
	health   *health
	turns    *turns
	clock    clock.Clock
	logger   *slog.Logger
}

// routes are about agents, projects and trees of flows, which the agent stage folds.
// In a group a member answers for those that it folds itself and names the owner of any
// other.
func (a *agentPages) routes() []route {
	return []route{
		{"GET", "/v1/health_check", reader, a.turns.of(a.serveHealthCheck)},
		{"GET", "/v1/agents", reader, a.turns.of(a.serveAgents)},
		{"GET", "/v1/agents/{id}", reader, a.serveAgent},
		{"GET", "/v1/inspect/agent", reader, byQuery("agent", a.serveAgent)},
		{"POST", "/v1/agents/{id}/rescue", sender, a.serveRescue},
		{"GET", "/v1/notes", reader, a.turns.of(a.serveNotes)},
		{"POST", "/v1/notes", sender, a.serveNote},
	}
}

// serveAgents is GET /v1/agents: the agents, or with kind=project the projects, that
// this process folds.
// Parameters: limit, kind, and stuck=1 for those alone that are stuck or may be.
func (a *agentPages) serveAgents(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", defaultAgents, maxAgents)
	if err != nil {
		return err
	}
	q := pump.AgentQuery{Limit: int(limit)}
	if q.Kind, err = agentKind(r); err != nil {
		return err
	}
	switch stuck := r.URL.Query().Get("stuck"); stuck {
	case "1", "true":
		q.Stuck = true
	case "", "0", "false":
	default:
		return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("stuck=%q is not known; want 1 or 0", stuck)}
	}
	list, err := pump.AgentsOf(a.log.Pumps(pump.AgentStage), q)
	if err != nil {
		return err
	}
	return answer(w, list)
}

// agentKind reads whether agents, projects or trees of flows are wanted.
func agentKind(r *http.Request) (events.ScopeKind, error) {
	switch kind := events.ScopeKind(r.URL.Query().Get("kind")); kind {
	case "", events.ScopeAgent:
		return events.ScopeAgent, nil
	case events.ScopeProject, events.ScopeTree:
		return kind, nil
	default:
		return "", &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("kind=%q is not known; want agent, project or tree", kind)}
	}
}

// serveAgent is GET /v1/agents/{id}: one agent, project or tree of flows, see agentKind.
// An unknown agent is 404. This is no fault: weir knows agents only from reported events.
func (a *agentPages) serveAgent(w http.ResponseWriter, r *http.Request) error {
	kind, err := agentKind(r)
	if err != nil {
		return err
	}
	p, key, err := a.agentPump(kind, r.PathValue("id"))
	if err != nil {
		return err
	}
	// One agent is one look-up, so this takes no turn.
	view, known, err := p.AgentView(key)
	if err != nil {
		return err
	}
	if !known {
		return &problem.Error{Status: http.StatusNotFound, Detail: fmt.Sprintf("nothing is known of %s %q; GET /v1/agents lists those that are", kind, r.PathValue("id"))}
	}
	return answer(w, view)
}

// agentPump returns the pump that folds an agent or a project, and its key there. If
// another process folds it, the error names that process.
func (a *agentPages) agentPump(kind events.ScopeKind, id string) (*pump.Pump, string, error) {
	key := pump.AgentKeyOf(kind, id)
	p, err := a.log.PumpOf(pump.AgentStage, key)
	return p, key, err
}

// RescueOrder is the body of a request for help for an agent.
type RescueOrder struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	// Admin wants help whether the agent is stuck or not; it needs the admin token.
	Admin bool `json:"admin,omitempty"`
}

// AgentAnswer is the response to an event about an agent: the event is in the log.
// The status is 202, because the fold may process the event later.
type AgentAnswer struct {
	ID    string `json:"id"` // of the event
	Kind  string `json:"kind"`
	Agent string `json:"agent"`
	// Time is that of the event, which may be later than the clock, see appendAbout.
	Time  events.RFC3339 `json:"time"`
	By    string         `json:"by"`
	Admin bool           `json:"admin,omitempty"`
	// New reports that the agent is unknown.
	New bool `json:"new,omitempty"`
	// Verdicts are what the fold said of it, if it said something in time.
	Verdicts []json.RawMessage `json:"verdicts,omitempty"`
}

// serveRescue is POST /v1/agents/{id}/rescue. Every sender of events may use it, because
// it could send the event as well. weir checks that the agent is stuck, except for
// callers with the admin token.
func (a *agentPages) serveRescue(w http.ResponseWriter, r *http.Request) error {
	var asked RescueOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	by, err := signed(r, asked.By, asked.Reason)
	if err != nil {
		return err
	}
	ev := events.Event{Kind: events.RescueRequest, From: events.Party{Agent: by}, To: events.Party{Agent: r.PathValue("id")},
		Rescue: &events.Rescue{Reason: asked.Reason, Admin: asked.Admin}}
	if !asked.Admin {
		return a.appendAbout(w, r, &ev, true)
	}
	if who, e := a.door.admit(r, operator); e != nil {
		// The route is open to senders, so host has not looked at whether this is an order.
		a.auditing.refusedOrder(r, who, e)
		return e
	}
	return a.auditing.audited(w, r, func(w http.ResponseWriter, r *http.Request) error {
		visitOf(r.Context()).note(&ev)
		return a.appendAbout(w, r, &ev, true)
	})
}

// appendAbout appends an event about an agent, which belongs to no flow, to the log and
// answers. If waits expects something, the answer has what the fold reports of the event.
//
// A note that names no agent is about its author.
func (a *agentPages) appendAbout(w http.ResponseWriter, r *http.Request, ev *events.Event, waits bool) error {
	about := ev.To.Agent
	if about == "" {
		about = ev.From.Agent
	}
	known := true
	stamp(ev, orderID(), a.clock.Now())
	// When another process folds the agent, the log takes the event all the same.
	if p, key, err := a.agentPump(events.ScopeAgent, about); err == nil {
		var view agents.View
		if view, known, err = p.AgentView(key); err != nil {
			return err
		}
		// Producers' clocks may be ahead of weir's. Behind the agent's last event, this one
		// would be judged as of a time at which that had not happened.
		ev.Time = max(ev.Time, events.Stamp(view.Last)) // it is said of the agent as it is known
		waits = waits && view.StepDue == 0              // else help is under way, and nothing more is said
	}
	// Whether anything comes of it, the event is in the log from here on.
	said, leave, err := a.orders.put(r.Context(), ev)
	defer leave()
	if err != nil {
		return err
	}
	out := AgentAnswer{ID: ev.ID, Kind: ev.Kind.String(), Agent: about, Time: events.RFC3339(ev.Time), By: ev.From.Agent, New: !known}
	if ev.Rescue != nil {
		out.Admin = ev.Rescue.Admin
		a.logger.Info("help was asked for an agent", "agent", about, "by", out.By, "reason", ev.Rescue.Reason, "admin", out.Admin, "event", out.ID)
	}
	if waits {
		out.Verdicts = said()
	}
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}
