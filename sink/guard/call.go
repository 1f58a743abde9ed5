package guard

import (
	"strings"

	"weir/events"
)

// Call is what a dispatcher is about to send. Most orders need Flow, From, and To or Tool.
// An order that names something else does not match a call without that field.
type Call struct {
	Flow string `json:"flow"` // correlation id

	// From and To are the parties as the events name them, by session or by agent;
	// FromAgent and ToAgent are the agents beside their sessions. A call of an agent
	// without From is taken for a person's, which nothing refuses.
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	FromAgent string `json:"from_agent,omitempty"`
	ToAgent   string `json:"to_agent,omitempty"`

	// Root is the first flow of the tree that the flow belongs to, as the events name it: their
	// root, else their parent. Empty for a flow that belongs to none, or is the root itself.
	Root string `json:"root_correlation_id,omitempty"`

	Tool        string `json:"tool,omitempty"` // makes it the call of a tool
	ArgsHash    string `json:"args_hash,omitempty"`
	ArgsSim     string `json:"args_sim,omitempty"`     // simhash64:hex of the arguments, by which the same call in other words is known
	CallID      string `json:"call_id,omitempty"`      // of a tool's call; joins it with its result
	ContentHash string `json:"content_hash,omitempty"` // both algorithm:hex, made as in the events that are reported

	Turn         string `json:"turn_id,omitempty"`
	Task         string `json:"task_id,omitempty"`
	Conversation string `json:"conversation_id,omitempty"`
	Project      string `json:"project_id,omitempty"`
	Tenant       string `json:"tenant_id,omitempty"`

	// Team, Model and Service are what a person's orders about scopes may name beside the rest.
	// Model is the one that the call is about or made for, Service the program that calls; a
	// guard's own Options.Source where it is empty.
	Team    string `json:"team_id,omitempty"`
	Model   string `json:"model,omitempty"`
	Service string `json:"service,omitempty"`
	// Principal is whose token weir knows the caller by. A guard has it from weir.
	Principal string `json:"principal,omitempty"`

	// Background says that the caller does not wait for the agent that it calls.
	Background bool `json:"background,omitempty"`

	// HadWork reports, for Ask, whether the caller used tools or made something since it was
	// called itself. Without it, weir cannot see that two agents only pass a message around.
	HadWork events.Tri `json:"-"`

	// Tell makes Ask return the remaining part of each limit (Decision.Remaining), also if no limit
	// of weir sets it. Weir computes it for each such call.
	Tell bool `json:"tell,omitempty"`

	Origin events.Origin `json:"-"` // unset: a person for an agent call without From, else an agent
}

// CallOf returns the call that an event announces or reports; false when it is none,
// or a person's, which nothing refuses.
// Weir asks its own table by it, as do simulations: see Table.
func CallOf(ev *events.Event) (Call, bool) {
	if !Refusable(ev) {
		return Call{}, false
	}
	return CallIn(ev), true
}

// Refusable reports whether an event announces or reports a call, and not a person's.
func Refusable(ev *events.Event) bool {
	return (ev.Kind == events.AgentCall || ev.Kind == events.ToolCall) && ev.By() != events.OriginUser
}

// CallIn returns the call that an event of any kind is about, as CallOf does, also one that only an
// order of a person about a scope refuses.
func CallIn(ev *events.Event) Call {
	c := Call{Flow: ev.CorrelationID, Root: ev.Root(), ArgsHash: ev.Tool.ArgsHash.String(), ArgsSim: ev.Tool.ArgsSim.String(), ContentHash: ev.Content.String(),
		Turn: ev.TurnID, Task: ev.TaskID, Conversation: ev.ConversationID, Project: ev.ProjectID, Tenant: ev.TenantID, Origin: ev.By(), HadWork: ev.HadWork,
		Team: ev.TeamID, Model: ev.Model, Service: ev.Source, Background: ev.Background}
	c.From, c.FromAgent = ev.From.ID(), ev.From.Agent
	c.To, c.ToAgent = ev.To.ID(), ev.To.Agent
	if ev.Kind == events.ToolCall {
		c.Tool = ev.Tool.Name
	}
	return c
}

// clip makes ids of the names of the call, as gateways do: weir rejects an event with a name that is
// no id, and an agent that may choose a name could have each of its calls rejected so.
func (c *Call) clip() {
	if isPlain(c.Flow) && isPlain(c.From) && isPlain(c.To) && isPlain(c.Tool) && isPlain(c.FromAgent) && isPlain(c.ToAgent) && isPlain(c.Root) && isPlain(c.Turn) &&
		isPlain(c.Task) && isPlain(c.Conversation) && isPlain(c.Project) && isPlain(c.Tenant) && isPlain(c.CallID) && isPlain(c.Team) && isPlain(c.Model) && isPlain(c.Service) {
		return
	}
	for _, name := range [...]*string{&c.Flow, &c.From, &c.To, &c.FromAgent, &c.ToAgent, &c.Root, &c.Tool, &c.Turn, &c.Task, &c.Conversation, &c.Project, &c.Tenant, &c.CallID, &c.Team, &c.Model, &c.Service} {
		if !isPlain(*name) {
			*name = clip(*name)
		}
	}
}

// isPlain reports whether a name needs no clipping, which is true of nearly all. It reads eight bytes
// at a time, because Check reads all names: a high bit is left where a byte is below ' ' or above '~',
// and sometimes beside such a byte.
func isPlain(s string) bool {
	const ones = 0x0101010101010101
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 | uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if (x|(x+ones)|(x-ones*' '))&(ones*0x80) != 0 {
			return false
		}
	}
	for ; i < len(s); i++ {
		if s[i]-' ' > '~'-' ' {
			return false
		}
	}
	return len(s) <= events.MaxID
}

// clip leaves out what no id may hold, and what is longer than an id, in bytes.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > events.MaxID {
		s = strings.ToValidUTF8(s[:events.MaxID], "")
	}
	return s
}

// event returns the call as an event of the kind: a request for an answer, or what an
// acknowledgement is about.
// It has neither id nor time; stampEvent gives them.
func (c *Call) event(kind events.Kind) events.Event {
	ev := events.Event{Kind: kind, CorrelationID: c.Flow, RootCorrelationID: c.Root, From: party(c.From, c.FromAgent), To: party(c.To, c.ToAgent),
		TurnID: c.Turn, TaskID: c.Task, ConversationID: c.Conversation, ProjectID: c.Project, TenantID: c.Tenant, Origin: c.Origin, HadWork: c.HadWork,
		TeamID: c.Team, Model: c.Model, Background: c.Background}
	if ev.Tool.Name = c.Tool; c.Tool != "" {
		ev.Tool.CallID = c.CallID
	}
	ev.Tool.ArgsHash, ev.Content = hashOf(c.ArgsHash), hashOf(c.ContentHash)
	if c.ArgsSim != "" {
		ev.Tool.ArgsSim, _ = events.ParseFingerprint(c.ArgsSim)
	}
	return ev
}

// hashOf reads a hash. One that weir cannot read is one that it does not know. Most calls have none,
// and no error is written for those.
func hashOf(s string) (h events.Hash) {
	if s != "" {
		h, _ = events.ParseHash(s)
	}
	return h
}

// A party with one name is reported as an agent: it may be an agent or a session, which is not known here.
func party(id, agent string) events.Party {
	if agent == "" || agent == id {
		return events.Party{Agent: id}
	}
	return events.Party{Session: id, Agent: agent}
}

// kind follows from the name of a tool: a call without one is to an agent.
func (c *Call) kind() events.Kind {
	if c.Tool != "" {
		return events.ToolCall
	}
	return events.AgentCall
}

// byPerson reports whether a person makes the call.
// Such calls are never refused: see decision 59 for whose word that is in weir.
func (c *Call) byPerson() bool {
	return c.Origin == events.OriginUser || c.Origin == events.OriginUnset && c.Tool == "" && c.From == "" && c.FromAgent == ""
}

// flowKey is the flow that weir folds the call in.
// It has to be the same as events.Event.FlowKey says, or orders about calls without a flow
// would not be found.
func (c *Call) flowKey() string {
	switch {
	case c.Flow != "":
		return c.Flow
	case c.To != "":
		return "agent:" + c.To
	case c.ToAgent != "":
		return "agent:" + c.ToAgent
	case c.From != "":
		return "agent:" + c.From
	}
	return "agent:" + c.FromAgent
}
