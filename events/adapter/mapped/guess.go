package mapped

import (
	"slices"
	"strings"
)

// spelt are the names by which logs call what a field is, the best first. A name stands for the
// last member of a path, or with a slash for the last two.
var spelt = [fields][]string{
	at: {"timestamp", "time", "ts", "@timestamp", "datetime", "date", "event_time", "start_time", "started_at", "created_at", "start", "started", "created", "at", "when", "t",
		"time_ms", "ts_ms", "epoch", "epoch_ms", "logged_at", "occurred_at", "sent", "sent_at", "received_at", "begin", "begin_time"},
	correlationID: {"correlation_id", "flow_id", "flow", "run_id", "workflow_id", "execution_id", "request_id", "run", "execution", "workflow_run_id", "job_id", "job", "rollout_id", "episode_id",
		"episode", "trajectory_id", "instance_id", "case_id", "run/id", "execution/id", "job/id", "invocation_id", "req_id", "rid"},
	traceID:        {"trace_id", "trace", "trace/id"},
	conversationID: {"conversation_id", "conversation", "thread_id", "thread", "chat_id", "dialog_id", "conversation/id", "thread/id", "room", "channel_id"},
	sessionID:      {"session_id", "session", "sid", "session/id", "session_key"},
	taskID:         {"task_id", "task", "ticket", "ticket_id", "task/id"},
	kind:           {"kind", "event_type", "type", "event", "event_name", "action_type", "step_type", "record_type", "phase", "msg_type", "message_type", "op", "stage", "category", "msg", "name"},
	tool: {"tool_name", "tool", "tool/name", "tool_call/name", "function/name", "function_name", "function_call/name", "function", "action/name", "action/tool", "action/type", "action", "command/name", "skill", "method", "call/name",
		"operation", "operation_name", "fn", "func", "api", "endpoint", "step_name", "activity", "name", "step", "plugin", "capability", "cmd", "act"},
	args: {"tool_input", "arguments", "args", "tool_args", "input", "inputs", "parameters", "params", "tool_parameters", "tool_call/arguments", "function/arguments", "function_call/arguments", "action_input", "action/arguments",
		"action/args", "action/input", "action/parameters", "action/params", "kwargs", "payload", "request", "query", "in", "body", "command", "data", "args_json"},
	content: {"tool_output", "output", "result", "outputs", "tool_result", "results", "observation", "response", "tool_response", "return_value", "returned", "out", "answer", "observation/content", "result/content",
		"output/content", "stdout", "content", "message", "text", "body", "reply", "value", "obs"},
	failure:      {"error", "exception", "error_message", "err", "failure", "error/message", "stderr", "error_type", "is_error", "failed"},
	status:       {"status", "outcome", "state", "result_status", "level"},
	callID:       {"tool_call_id", "call_id", "tool_use_id", "invocation", "span_id", "tool/id", "tool_call/id", "call/id", "correlation", "action_id", "step_id", "request", "op_id"},
	from:         {"from", "sender", "agent", "agent_name", "from_agent", "source_agent", "caller", "author", "speaker", "actor", "agent_id", "from/name", "sender/name", "sender/id", "agent/name", "agent/id", "worker", "bot", "src", "producer", "publisher", "who", "role"},
	to:           {"to", "recipient", "receiver", "target", "to_agent", "target_agent", "callee", "addressee", "to/name", "recipient/name", "recipient/id", "target/name", "target/id", "dest", "destination", "dst", "delegate", "delegate_to", "handoff_to", "consumer", "subscriber"},
	duration:     {"duration_ms", "latency_ms", "elapsed_ms", "took_ms", "ms"},
	inputTokens:  {"input_tokens", "prompt_tokens", "tokens_in", "usage/input_tokens", "usage/prompt_tokens", "tokens/input", "tokens/in", "usage/input", "tokens/prompt"},
	outputTokens: {"output_tokens", "completion_tokens", "tokens_out", "usage/output_tokens", "usage/completion_tokens", "tokens/output", "tokens/out", "usage/output", "tokens/completion"},
	totalTokens:  {"total_tokens", "tokens", "usage/total_tokens", "tokens/total", "token_count"},
	costUSD:      {"cost_usd", "cost", "usd", "price_usd", "usage/cost", "cost/usd", "total_cost_usd"},
	model:        {"model", "model_name", "model_id", "llm", "llm/model"},
}

// order is in which fields choose their place: a place serves one field.
var order = []field{at, tool, kind, callID, correlationID, sessionID, conversationID, traceID, taskID, to, from, args, failure, status, content, inputTokens, outputTokens, totalTokens, costUSD, duration, model}

// rank is how well the names of a place fit a field, from 1; 0 when they do not.
func (c *column) rank(f field) int {
	last := asID(c.words[len(c.words)-1])
	if f == correlationID && c.up > 0 && (last == "id" || last == "name") {
		return 1 // what a record around the elements is called
	}
	two := last
	if len(c.words) > 1 {
		two = c.words[len(c.words)-2] + "/" + last
	}
	for i, name := range spelt[f] {
		if strings.Contains(name, "/") && (name == two || strings.HasSuffix(two, "_"+name)) || !strings.Contains(name, "/") && name == last {
			return len(spelt[f]) - i
		}
	}
	return 0
}

// asID writes the names of ids in one way: conversation_uid is conversation_id.
func asID(name string) string {
	for _, end := range []string{"uuid", "uid", "guid"} {
		if before, ok := strings.CutSuffix(name, end); ok && (before == "" || strings.HasSuffix(before, "_")) {
			return before + "id"
		}
	}
	return name
}

// fits reports whether the values of a place can be of a field.
func (c *column) fits(f field) bool {
	scalars := c.strings + c.numbers + c.bools
	switch f {
	case at:
		return scalars > 0 && c.times == c.seen
	case tool, to, from:
		// A name: short, without line ends, and of few kinds.
		return c.strings > 0 && c.strings == c.seen && c.longest <= 100 && c.named() && c.times == 0
	case kind:
		return c.strings == c.seen && !c.varied && c.longest <= 60 && len(c.means()) > 0
	case correlationID, sessionID, conversationID, traceID, taskID:
		return c.strings+c.numbers == c.seen && c.longest <= 200 && c.times < c.seen && (c.up > 0 || c.repeats())
	case callID:
		return c.strings+c.numbers == c.seen && c.longest <= 200
	case inputTokens, outputTokens, totalTokens, costUSD, duration:
		return c.numbers == c.seen && c.times == 0
	case status:
		return c.strings == c.seen && !c.varied && allMean(c.texts, statuses)
	case model:
		return c.strings == c.seen && c.longest <= 100
	case failure:
		return c.numbers == 0
	}
	return true
}

// named reports whether all values may be names: no sentences.
func (c *column) named() bool {
	for text := range c.texts {
		if text == "" || strings.Count(text, " ") > 3 || strings.ContainsAny(text, "\n{}") {
			return false
		}
	}
	return true
}

// repeats reports whether some value stands in several records: one that never does names
// records, and no flow.
func (c *column) repeats() bool {
	if c.seen < 2 {
		return true
	}
	for _, n := range c.texts {
		if n > 1 {
			return true
		}
	}
	return false
}

// choose finds a place for each field; "" for none.
func (t *table) choose() (chosen [fields]string) {
	taken := map[*column]bool{}
	var kinds *column
	for _, f := range order {
		if (f == conversationID || f == traceID || f == sessionID) && chosen[correlationID] != "" || f == taskID && (chosen[correlationID] != "" || chosen[sessionID] != "" || chosen[conversationID] != "" || chosen[traceID] != "") {
			continue // one name of a flow is enough
		}
		if (f == args || f == callID) && chosen[tool] == "" {
			continue
		}
		best := t.best(f, taken)
		if best == nil {
			continue
		}
		taken[best] = true
		chosen[f] = best.path
		if f == kind {
			kinds = best
		}
		if f == args || f == content || f == callID {
			chosen[f] = t.others(f, best, taken)
		}
	}
	if kinds != nil && !kinds.useful(chosen[tool] != "") {
		chosen[kind] = ""
	}
	if chosen[tool] == "" && chosen[to] == "" {
		return [fields]string{}
	}
	return chosen
}

// best is the place that fits a field best; nil for none. What is nearer to the element, and in more
// records, goes before.
func (t *table) best(f field, taken map[*column]bool) (best *column) {
	top := 0
	for _, c := range t.columns {
		rank := c.rank(f)
		if rank == 0 || taken[c] || !c.fits(f) || c.up > 0 && !ofAround(f) {
			continue
		}
		score := 100*rank - 10*len(c.words) - 300*c.up
		if f == correlationID || f == sessionID {
			score += 300 * c.up // a flow is named outside of its steps as well as inside
		}
		// A name that few records have is one of other records.
		score += 200 * c.seen / t.rows
		if best == nil || score > top {
			best, top = c, score
		}
	}
	return best
}

// ofAround reports whether a field may be that of a record around the element.
func ofAround(f field) bool {
	switch f {
	case at, correlationID, sessionID, conversationID, traceID, taskID, from, model:
		return true
	}
	return false
}

// others adds the places of the same field in records that do not have the best one, such as the
// output of other kinds of tools.
func (t *table) others(f field, best *column, taken map[*column]bool) string {
	value := best.path
	if best.seen == t.rows {
		return value
	}
	for range 2 {
		next := t.best(f, taken)
		if next == nil || next.seen+best.seen > t.rows+t.rows/4 {
			break
		}
		taken[next] = true
		value += "//" + next.path
	}
	return value
}

// Words that say what a kind of record is about, and whether it says that something is over.
var (
	ends   = []string{"end", "result", "response", "output", "finish", "complete", "done", "return", "observation", "success", "error", "fail", "reply", "answer"}
	tools  = []string{"tool", "function", "action", "observation", "command", "skill", "activity", "exec", "operation"}
	models = []string{"llm", "model", "completion", "generation", "inference", "gpt", "claude"}
	talks  = []string{"message", "msg", "handoff", "hand_off", "delegat", "transfer", "agent", "send", "dispatch", "assign"}
)

func holds(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// meaningOf is the kind of weir that a word of a log means; "" for none.
func meaningOf(word string) string {
	w := wordOf(word)
	for _, k := range []string{"tool.call", "tool.result", "agent.call", "agent.return", "llm.call"} {
		if strings.ReplaceAll(k, ".", "_") == w {
			return k
		}
	}
	switch {
	case holds(w, models) && !holds(w, tools):
		if holds(w, []string{"start", "begin", "request"}) {
			return "" // reported again when it is over
		}
		return "llm.call"
	case holds(w, tools) && holds(w, ends):
		return "tool.result"
	case holds(w, tools):
		return "tool.call"
	case holds(w, talks) && holds(w, ends):
		return "agent.return"
	case holds(w, talks):
		return "agent.call"
	}
	return ""
}

// means are the meanings of the words of a place.
func (c *column) means() map[string]string {
	out := map[string]string{}
	for text := range c.texts {
		if k := meaningOf(text); k != "" {
			out[text] = k
		}
	}
	return out
}

// useful reports whether the words of a place distinguish calls from other records. Without such
// a place the tool of a record makes it a call, so words that all mean a call add nothing.
func (c *column) useful(tools bool) bool {
	means := c.means()
	calls, others := false, len(means) < len(c.texts)
	for _, k := range means {
		calls = calls || k == "tool.call" || k == "agent.call"
		others = others || k != "tool.call"
	}
	return calls && (others || !tools)
}

// statuses are words for how a call ended.
var statuses = map[string]string{"ok": "ok", "success": "ok", "succeeded": "ok", "successful": "ok", "completed": "ok", "complete": "ok", "done": "ok", "finished": "ok", "passed": "ok",
	"error": "error", "failed": "error", "failure": "error", "fail": "error", "errored": "error", "exception": "error", "denied": "denied", "rejected": "denied", "refused": "denied",
	"cancelled": "cancelled", "canceled": "cancelled", "aborted": "cancelled", "timeout": "timeout", "timed_out": "timeout"}

func allMean(texts map[string]int, words map[string]string) bool {
	for text := range texts {
		if words[wordOf(text)] == "" {
			return false
		}
	}
	return len(texts) > 0
}

// meanings are the parts of a mapping that say what words mean, in order.
func (t *table) meanings(chosen [fields]string) (parts []string) {
	if c := t.by[chosen[kind]]; c != nil {
		for text, k := range c.means() {
			if text != k && !strings.ContainsAny(text, "=\"\n") {
				parts = append(parts, "kind."+quotedWord(text)+"="+k)
			}
		}
	}
	if c := t.by[chosen[status]]; c != nil {
		for text := range c.texts {
			if is := statuses[wordOf(text)]; is != text && !strings.ContainsAny(text, "=\"\n") {
				parts = append(parts, "status."+quotedWord(text)+"="+is)
			}
		}
	}
	slices.Sort(parts)
	return parts
}

// quotedWord is a word as a mapping has it.
func quotedWord(text string) string {
	if strings.ContainsAny(text, ` ,=."#()[]{}`) {
		return `"` + text + `"`
	}
	return text
}
