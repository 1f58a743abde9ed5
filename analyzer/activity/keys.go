package activity

import (
	"strings"

	"weir/events"
)

// The kinds of keys of the agent stage.
const (
	AgentPrefix   = "agent:"
	ProjectPrefix = "project:"
	TreePrefix    = "tree:" // and the correlation id of the root
	WakePrefix    = "wake:" // and a conversation, see WakeID
)

// wakeSeparator is in no id.
const wakeSeparator = "\x1f"

// WakeID is a conversation of a tenant, in which flows are woken. Conversations of two tenants are
// two, whatever their ids.
func WakeID(tenant, conversation string) string { return tenant + wakeSeparator + conversation }

// OfWake returns the tenant and the conversation of a WakeID.
func OfWake(id string) (tenant, conversation string) {
	tenant, conversation, _ = strings.Cut(id, wakeSeparator)
	return tenant, conversation
}

// flowsMark begins the name of an agent in a WakeID, where no conversation can have it.
const flowsMark = "\x1e"

// FlowsID is the flows of a tenant that began with an agent and that no person opened.
func FlowsID(tenant, agent string) string { return WakeID(tenant, flowsMark+agent) }

// openerMark begins the name of the flow that opened the flows.
const openerMark = "\x1d"

// OpenedID is the flows of a tenant that one flow opened.
func OpenedID(tenant, opener string) string { return FlowsID(tenant, openerMark+opener) }

// OfOpener returns the opener of an OpenedID, given the name that OfFlows returns.
func OfOpener(agent string) (opener string, ok bool) { return strings.CutPrefix(agent, openerMark) }

// OfFlows returns the tenant and the agent of a FlowsID; ok is false for a conversation.
func OfFlows(id string) (tenant, agent string, ok bool) {
	tenant, name := OfWake(id)
	agent, ok = strings.CutPrefix(name, flowsMark)
	return tenant, agent, ok
}

// AgentKey is the key under which the state of an agent is kept: the stable id, else the
// session. It is empty for the zero Party, which has no state.
func AgentKey(p events.Party) string {
	switch {
	case p.Agent != "":
		return "agent:" + p.Agent
	case p.Session != "":
		return "agent:" + p.Session
	}
	return ""
}

// ProjectKey is the key under which the caps of a project are kept; empty for none.
func ProjectKey(id string) string {
	if id == "" {
		return ""
	}
	return "project:" + id
}

// TreeKey is the key under which the ledger of a tree is kept; empty for none.
func TreeKey(root string) string {
	if root == "" {
		return ""
	}
	return TreePrefix + root
}

// NoteAuthor signs the notes that weir itself leaves with an agent.
const NoteAuthor = "weir"
