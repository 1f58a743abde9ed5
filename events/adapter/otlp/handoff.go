package otlp

import (
	"cmp"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/fingerprint"
)

// It is the target of a handoff that does not name one.
//
// A star is no name that an agent has.
const whoever = "*"

// openInferenceHandoff begins the names of the spans in which OpenInference reports the handoffs
// of openai-agents: input and output are the names of the two agents.
const openInferenceHandoff = "handoff to "

// readHandoff finds out whether a tool passes control to another agent, or asks one, and
// what it says to it. The conventions have attributes for it; else the names of such
// tools are conventions of the frameworks, and one that is made up of an agent's name
// ("transfer_to_billing") counts only when there is an agent of that name.
//
// args are the arguments as the tracer recorded them. It sets handoff, or asks, or neither;
// what is in handoff already is what a command of the tool said.
func (s *span) readHandoff(a *attributes, args []byte) {
	if target := adapter.Word(a.text[transferTarget], events.MaxID); target != "" {
		switch {
		case a.upper(transferTo) == "HUMAN": // control leaves the agents
		case string(a.text[transferMode]) == "return_to_caller":
			s.asks = target
		default:
			s.handoff, s.surely = target, true
		}
	} else if s.handoff == "" {
		s.handoffByName()
	}
	// It is a tool like any other.
	if s.handoff == "" && s.asks == "" {
		return
	}
	// The name of the agent and the context of the program are no message.
	leftOut, message, target := []string{"ctx"}, false, ""
	// Arguments that are no object are the message, but where the tracer writes the name of
	// the agent that hands over in their place: it is the same whatever was said.
	c := jsonwalk.New(args)
	if c.Peek() != '{' {
		message = len(args) > 0 && !strings.HasPrefix(s.tool.Name, openInferenceHandoff)
	} else {
		for c.Object(); c.Member(); {
			switch key := string(c.Key()); key {
			case "agent_name", "to_agent", "target_agent", "subagent_type", "coworker":
				leftOut = append(leftOut, key)
				target = cmp.Or(target, adapter.Word(c.Text(), events.MaxID))
			// The context of LlamaIndex changes with each call.
			case "ctx":
				c.Skip()
			default:
				c.Skip()
				message = true
			}
		}
	}
	// The name of the agent stands among the arguments.
	if s.handoff == whoever && target != "" {
		s.handoff = target
	}
	if s.asks == whoever {
		s.asks = target // without a target it is a tool like others
	}
	// A handoff without a message keeps the zero hash, and then the answer before it is the
	// message.
	if message {
		// A text of the arguments is compared as a whole as well, for handoffs that say nearly
		// the same.
		args = withoutAddresses(args)
		s.content, s.sim = fingerprint.Args(args, leftOut), fingerprint.Text(args)
	}
}

// handoffByName knows the tools by which frameworks let an agent hand over or ask
// another. Some put the name of a plugin before them: "Handoff-transfer_to_writer".
//
// It must be asked after the name of the tool was found. surely says that no agent of that
// name has to be seen for it to be a handoff.
func (s *span) handoffByName() {
	name := s.tool.Name
	if target, ok := strings.CutPrefix(name, openInferenceHandoff); ok {
		s.handoff, s.surely = target, true
		return
	}
	if i := strings.LastIndexAny(name, "-./:"); i >= 0 {
		// Its plugin has this name, so that the target need not be seen.
		s.surely = name[:i] == "Handoff" // Semantic Kernel
		name = name[i+1:]
	}
	switch name {
	case "transfer_to_agent", "handoff_to_agent":
		s.handoff, s.surely = whoever, true
		return
	// Other programs call quite different tools so.
	case "handoff":
		if s.scope == scopeLlamaIndex {
			s.handoff, s.surely = whoever, true
		}
		return
	// Of Claude Code and CrewAI; who is asked stands in the arguments.
	case "Task", "Agent", "delegate_work_to_coworker", "ask_question_to_coworker":
		s.asks = whoever
		return
	}
	// Behind the prefix is the name of an agent, if there is one of that name.
	for _, prefix := range [...]string{"transfer_to_", "handoff_to_", "transfer_back_to_"} {
		if target, ok := strings.CutPrefix(name, prefix); ok {
			s.handoff = target
			return
		}
	}
	// The plugin was no Handoff, or the name is another tool of it.
	s.surely = false
}

// alike compares the name of an agent with its name as part of the name of a tool.
//
// In names of tools only letters, digits and underscores are allowed, so frameworks replace
// the rest.
func alike(agent, part string) bool {
	plain := func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r == ' ' || r == '-' || r == '.':
			return '_'
		}
		return r
	}
	return strings.Map(plain, agent) == strings.Map(plain, part)
}
