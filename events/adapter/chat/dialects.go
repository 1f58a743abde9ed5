package chat

import (
	"bytes"
	"strings"

	"weir/events/adapter"
	"weir/events/adapter/usage"
)

// dialects are all that are read.
var dialects = []*dialect{claudeStream(), pi(), atif(), agui(), messages(), sweAgent(), inspect(), goose(), cursor(), kimi(), sharegpt(), flink()}

// has returns a score that is certain where one of the first records has these members.
func has(members ...string) func(*adapter.Head) adapter.Match {
	return func(head *adapter.Head) adapter.Match {
		if head.Any(func(top adapter.Top) bool { return top.Has(members...) }) {
			return adapter.Certain
		}
		return adapter.NoMatch
	}
}

func isList(n *node) bool { return n.nodes != nil && n.role == "" }

// anthropicPart is a block of the API of Anthropic, as several programs keep it.
func anthropicPart() *level {
	return &level{names: map[string]field{"type": kind, "text": text, "id": call, "tool_use_id": call, "name": tool, "input": args, "content": said, "is_error": failed}}
}

// claudeStream is what claude -p --output-format stream-json prints, and the Claude Agent SDK
// yields. A subagent's lines name the call that gave it the task.
func claudeStream() *dialect {
	message := &level{names: map[string]field{"id": answer, "role": role, "model": model, "content": text, "usage": used},
		lists: map[string]*level{"content": anthropicPart()}, used: usage.Anthropic}
	return &dialect{name: "claudestream", title: "the stream of Claude Code and its SDK (claude -p --output-format stream-json), one message per line", program: "claude-code",
		score: func(head *adapter.Head) adapter.Match {
			return has("type", "session_id", "uuid")(head) | has("type", "session_id", "parent_tool_use_id")(head) | has("type", "subtype", "session_id", "tools")(head)
		},
		tokens: adapter.Always, time: adapter.Sometimes, unique: true, closes: true, holds: true, line: claudeLine,
		record: &level{names: map[string]field{"type": kind, "session_id": session, "uuid": id, "parent_tool_use_id": parent, "timestamp": at, "isSynthetic": passed, "isReplay": passed,
			"result": said, "is_error": failed}, within: map[string]*level{"message": message}}}
}

// pi is a session of Pi, which OpenClaw writes as well. The first line names the session.
func pi() *dialect {
	part := &level{names: map[string]field{"type": kind, "text": text, "id": call, "name": tool, "arguments": args}}
	message := &level{names: map[string]field{"role": role, "provider": provider, "model": model, "timestamp": at, "content": text, "toolCallId": call, "toolName": tool, "isError": failed, "usage": used},
		lists: map[string]*level{"content": part},
		used:  usage.Names{"input": usage.Input, "output": usage.Output, "cacheRead": usage.CacheRead, "cacheWrite": usage.CacheCreation, "totalTokens": usage.Total}}
	return &dialect{name: "pi", title: "sessions of Pi and OpenClaw, one entry per line", program: "pi",
		score: func(head *adapter.Head) adapter.Match {
			return has("type", "version", "id", "cwd")(head) | has("type", "id", "parentId", "message")(head)
		},
		tokens: adapter.Always, time: adapter.Always, line: piLine,
		record: &level{names: map[string]field{"type": kind, "id": id, "timestamp": at}, within: map[string]*level{"message": message}}}
}

// atif is a trajectory that Harbor and programs like it write: a document of steps, each with its
// calls and their results.
func atif() *dialect {
	step := &level{names: map[string]field{"step_id": id, "timestamp": at, "source": role, "message": text, "model_name": model, "metrics": used, "is_copied_context": passed},
		lists: map[string]*level{
			"message":    {names: map[string]field{"text": text}},
			"tool_calls": {names: map[string]field{"tool_call_id": call, "function_name": tool, "arguments": args}}},
		within: map[string]*level{"observation": {lists: map[string]*level{"results": {names: map[string]field{"source_call_id": call, "content": said}}}}},
		used:   usage.Names{"prompt_tokens": usage.Input, "completion_tokens": usage.Output, "cached_tokens": usage.CacheRead}}
	// A document may hold those of subagents.
	record := &level{names: map[string]field{"session_id": session, "trajectory_id": id}, lists: map[string]*level{"steps": step},
		within: map[string]*level{"agent": {names: map[string]field{"name": agent, "model_name": model}}}}
	record.lists["subagent_trajectories"] = record
	return &dialect{name: "atif", title: "trajectories in ATIF (Harbor, Terminal-Bench), one document per run", program: "agent", framing: adapter.Documents,
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool { return strings.HasPrefix(top["schema_version"], "ATIF-") }) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		tokens: adapter.Sometimes, time: adapter.Sometimes, isDocument: isList, inner: true, record: record}
}

// message is a message of the APIs of OpenAI (chat and Responses), Anthropic and Gemini, whose
// names do not contradict each other.
func message() *level {
	calls := &level{names: map[string]field{"id": call, "name": tool, "function": tool, "arguments": args}}
	calls.within = map[string]*level{"function": calls}
	part := anthropicPart()
	part.names["thought"] = passed
	part.within = map[string]*level{
		"functionCall":     {names: map[string]field{"id": call, "name": tool, "args": args}},
		"functionResponse": {names: map[string]field{"id": call, "name": tool, "response": said}}}
	return &level{names: map[string]field{"role": role, "type": kind, "content": text, "ts": at, "timestamp": at, "model": model, "tool_call_id": call, "call_id": call,
		"name": tool, "tool_name": tool, "arguments": args, "output": said, "function": tool, "error": failed, "usage": used},
		lists: map[string]*level{"content": part, "parts": part, "tool_calls": calls, "function_call": calls},
		used:  usage.Providers}
}

// messages is a list of messages, bare or in a document: requests to the APIs, and histories such
// as those of Roo Code and of Cline in editors.
func messages() *dialect {
	record := message()
	for _, list := range []string{"messages", "contents", "input", "items", "history"} {
		record.lists[list] = message()
		record.lists[list].names["session_id"] = session
	}
	record.names["id"], record.names["session_id"], record.names["conversation_id"] = id, session, session
	return &dialect{name: "messages", title: "lists of messages (OpenAI chat and Responses, Anthropic, Gemini, Roo Code, Hermes, Kimi), as array, document or lines", program: "agent", framing: adapter.Documents,
		score: scoreMessages, held: true, tokens: adapter.Sometimes, time: adapter.Sometimes, isDocument: func(n *node) bool { return isList(n) && n.kind == "" }, record: record, inText: tagCall}
}

// scoreMessages is never certain, because other formats have messages, too.
func scoreMessages(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		switch role, kind := top["role"], top["type"]; {
		case role == "_system_prompt" || role == "_checkpoint":
			continue // Kimi writes these among its messages
		case top.Has("role") && (top.Has("content") || top.Has("parts")) && !top.Has("sessionId"):
			switch role {
			case "system", "developer", "user", "assistant", "model", "tool", "function":
				return adapter.Maybe
			}
		case top.Has("call_id") && (kind == "function_call" || kind == "function_call_output"):
			return adapter.Maybe
		case (top["messages"] == "[" || top["contents"] == "[") && !top.Has("sessionId"):
			return adapter.Maybe
		}
		return adapter.NoMatch
	}
	return adapter.NoMatch
}

// sweAgent is a trajectory of SWE-agent, or one of mini-swe-agent, whose commands stand in the
// texts of its answers.
func sweAgent() *dialect {
	step := message()
	step.names["action"], step.names["observation"] = command, said
	step.within = map[string]*level{"extra": {names: map[string]field{"timestamp": at}}}
	return &dialect{name: "sweagent", title: "trajectories of SWE-agent and mini-swe-agent (.traj, .traj.json), one document per run", program: "swe-agent", framing: adapter.Documents,
		score: func(head *adapter.Head) adapter.Match {
			// The name of the format stands behind the messages, and info has these members.
			if has("info")(head) == adapter.Certain && !bytes.Contains(head.Bytes, []byte(`"exit_status"`)) && !bytes.Contains(head.Bytes, []byte(`"model_stats"`)) {
				return adapter.NoMatch
			}
			return has("trajectory", "environment")(head) | has("trajectory", "info")(head) | has("trajectory_format")(head) | has("info", "messages")(head)
		},
		tokens: adapter.Never, time: adapter.Sometimes, onePrompt: true, isDocument: isList, inText: fencedCall,
		record: &level{names: map[string]field{"instance_id": session}, lists: map[string]*level{"trajectory": step, "messages": step}}}
}

// inspect is a log of Inspect AI in JSON, or one sample of it.
func inspect() *dialect {
	item := message()
	item.names["id"] = id
	sample := &level{names: map[string]field{"id": session, "epoch": id}, lists: map[string]*level{"messages": item}}
	record := &level{names: map[string]field{"id": session, "epoch": id}, lists: map[string]*level{"samples": sample, "messages": item},
		within: map[string]*level{"eval": {names: map[string]field{"eval_id": session, "model": model}}}}
	return &dialect{name: "inspect", title: "logs of Inspect AI in JSON, one document per evaluation or sample", program: "agent", framing: adapter.Documents,
		score: func(head *adapter.Head) adapter.Match {
			return has("version", "status", "eval")(head) | has("id", "epoch", "input", "target")(head)
		},
		// Later messages of the role user are those by which the scaffold has the model go on.
		tokens: adapter.Never, time: adapter.Never, onePrompt: true, isDocument: isList, nested: true, record: record}
}
