package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/claudehooks"
)

// HookPath is the route of hooks.
const HookPath = "/v1/hook"

// HookHeader is in every answer, so that a client can distinguish weir from another program that
// answers with an empty object. Such an object, treated as weir's, would allow everything.
const HookHeader = "Weir-Hook"

// TranscriptHeader of a request says why the transcript that the input of a hook names was not read by the program
// that runs the hook; see the reasons. In an answer it says that this is the first time for the session.
const TranscriptHeader = "Weir-Transcript"

// The reasons.
const (
	UnreadMissing = "the file does not exist"
	UnreadDenied  = "permission denied"
	UnreadOther   = "it cannot be read"
)

// Hook answers the hooks of coding agents: what is about to be done is asked for, what
// was done is recorded. The answer always has status 200, because a hook takes any other
// for a fault and goes on.
// The input of a hook is untrusted text of a program: whatever it is, the answer is one that
// the program can read.
type Hook struct {
	Check Checker
	// Append appends events that are no asks, each of one line.
	// The lines belong to it afterwards.
	Append func(ctx context.Context, lines [][]byte) error
	// Begins returns the order of a person that refuses a prompt, by which a flow begins, or nil. nil
	// refuses none.
	Begins func(ctx context.Context, ev *events.Event) *events.Verdict
	// Failed is called with each fault, whether the agent was allowed to go on or not.
	Failed func(err error)
	Now    func() time.Time
	// Unread is called the first time in a session that a transcript could not be read. source is that of the
	// events, file is what the sender calls it, and why is one of the reasons. nil is called for none.
	Unread func(source, file, why string)

	// It guards what follows. The fold is asked without it.
	mu sync.Mutex
	// One for each program, since the source of its events has the name of the program.
	readers map[string]adapter.Adapter // by name of the program
	// With it the end of a use finds its beginning, where programs number neither.
	// Keys are hashes (see keyOf), since inputs of tools are as long as their senders like.
	open    *adapter.Recent[string] // ids that were given to uses of tools, by what was used
	prompts *adapter.Recent[prompt] // that came without an id, by session: the last one
	// begun are the last prompts that began something, by session: a prompt that a program sends in
	// the place of the user makes no event.
	begun  *adapter.Recent[*events.Event]
	unread *adapter.Recent[struct{}] // sessions whose transcript could not be read
	word   string                    // of this run, so that ids of two runs differ
	serial int64
}

// NewHook returns a Hook.
func NewHook(c Checker, appendLines func(context.Context, [][]byte) error, failed func(error), now func() time.Time) *Hook {
	h := &Hook{Check: c, Append: appendLines, Failed: failed, Now: now, open: adapter.NewRecent[string](openUses), prompts: adapter.NewRecent[prompt](openUses), begun: adapter.NewRecent[*events.Event](openUses), unread: adapter.NewRecent[struct{}](openUses),
		word: strings.ToLower(rand.Text()[:8]), readers: make(map[string]adapter.Adapter)}
	// Inputs of all programs are brought to the names of Claude Code first, so one reader
	// knows them all.
	for _, program := range hookPrograms {
		h.readers[program] = claudehooks.Format().New(adapter.Options{Source: program + "-hooks"})
	}
	return h
}

// prompt is the id that was given to a prompt, and to the one before it.
type prompt struct{ id, before string }

// keyOf is what is remembered of texts that belong together, always of the same number of bytes.
// A hash that cannot be forged keeps one session from answering for another.
func keyOf(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		// The length distinguishes "a", "bc" from "ab", "c".
		_ = binary.Write(h, binary.LittleEndian, int64(len(text)))
		_, _ = io.WriteString(h, text)
	}
	return string(h.Sum(nil))
}

// openUses is how many uses of tools may wait for their end, and how many sessions for
// their next prompt.
const openUses = 4096

// ServeHTTP answers one input of a hook. When weir cannot answer, the agent goes on,
// unless the query has closed=1 and a tool was about to be used.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// One byte more than a record may have, so that the reader refuses what is cut.
	body, err := io.ReadAll(io.LimitReader(r.Body, adapter.MaxRecord+1))
	in, broken := readHook(body)
	var answer HookAnswer
	// A broken input is judged by what came before the fault, see readHook.
	if err = cmp.Or(err, broken); err != nil {
		err = fmt.Errorf("read the input of a hook: %w", err)
	} else {
		in.openedBy(r.Header)
		if h.unreadFirst(in, r.Header.Get(TranscriptHeader)) {
			w.Header().Set(TranscriptHeader, "first")
		}
		answer, err = h.answer(r.Context(), in)
	}
	if err != nil {
		h.Failed(err)
		// A prompt of a person and an end of a turn are never refused for a fault of weir.
		if r.URL.Query().Get("closed") == "1" && in.asks() {
			answer = h.refuse(in, events.Deny, "The flow guard cannot answer ("+reasonOf(err)+"), and calls are refused until it can. Try again later.")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	// Set on refusals of any kind, see HookHeader.
	w.Header().Set(HookHeader, "1")
	_, _ = w.Write(encode(answer))
}

// readable are the programs whose transcripts have the tokens of their model calls (see package lastcalls).
var readable = []string{claudeCode, codex, gemini, qwen}

// unreadFirst notes that a transcript could not be read, and reports whether that is new for the session. What is none
// of the reasons is ignored.
func (h *Hook) unreadFirst(in *hookInput, why string) bool {
	if h.Unread == nil || !slices.Contains(readable, in.program) || why != UnreadMissing && why != UnreadDenied && why != UnreadOther {
		return false
	}
	key := keyOf(in.program, in.text("session_id"))
	h.mu.Lock()
	_, known := h.unread.Get(key)
	if !known {
		h.unread.Put(key, struct{}{})
	}
	h.mu.Unlock()
	if !known {
		h.Unread(in.program+"-hooks", cmp.Or(in.text("agent_transcript_path"), in.text("transcript_path")), why)
	}
	return !known
}

// reasonOf keeps what programs say of errors away from the model.
func reasonOf(err error) string {
	if err == ErrTimeout {
		return "no answer in time"
	}
	return "a fault"
}

// answer checks what may be refused, one call after the other, and records the rest unless
// a call was refused. The first refusal is the answer, because a hook has one answer.
func (h *Hook) answer(ctx context.Context, in *hookInput) (answer HookAnswer, err error) {
	list, err := h.read(in)
	if err != nil {
		return answer, fmt.Errorf("the input of a hook: %w", err)
	}
	if refused, ok := h.promptRefused(ctx, in, list); ok {
		return refused, nil
	}
	var rest [][]byte
	// Asks one by one and in their order: an input seldom has more than one.
	for i := range list {
		ev := &list[i]
		if ev.Kind != events.ToolCall && ev.Kind != events.AgentCall || ev.By() == events.OriginUser || !ev.Ask {
			rest = append(rest, ev.AppendJSON(nil))
			continue
		}
		// What the model used before the call counts in its check, and also if that refuses.
		if len(rest) > 0 {
			if err := h.Append(ctx, rest); err != nil {
				return answer, err
			}
			rest = nil
		}
		in.spawns = ev.Kind == events.AgentCall && in.asks()
		v, err := h.Check.one(ctx, ev, ev.AppendJSON(nil))
		// Such as an id that was used for another call, see decision 9.
		if e, ok := errors.AsType[*Error](err); ok { // the agent's fault, not weir's
			return h.refuse(in, events.Deny, "weir: "+e.Detail), nil
		}
		if err != nil {
			return answer, err
		}
		switch reason := "weir " + string(v.Reason) + ": " + agentText(v); {
		// A stop at the end of a turn ends the run; the report of the end still goes into
		// the log.
		case Refuses(v) && in.ends(): // the end of the turn is recorded all the same
			answer = in.ending(reason)
			continue
		case Refuses(v):
			return h.refuse(in, endsRun(v), reason), nil
		}
		if v.AgentMessage != "" && in.asks() {
			answer = in.note(v.AgentMessage)
		}
	}
	// What is no ask is appended when no ask was refused.
	if len(rest) > 0 {
		err = h.Append(ctx, rest)
	}
	return answer, err
}

// refuse refuses the input, see refusal. An agent that it would have started is forgotten.
func (h *Hook) refuse(in *hookInput, action events.Action, reason string) HookAnswer {
	if in.spawns {
		h.forget(in)
	}
	return in.refusal(action, reason)
}

// forget has the reader forget the use of a tool that was refused, as if it had failed: it runs no agent,
// and the next agent of its kind is another one.
func (h *Hook) forget(in *hookInput) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in.fields["hook_event_name"] = quoted("PostToolUseFailure")
	if line, err := json.Marshal(in.fields); err == nil {
		_ = h.readers[in.program].Decode(line, func(*events.Event) {}) // it was read before
	}
}

// promptRefused returns the refusal of a prompt while an order of a person stops what it would begin.
// Rules refuse no prompt. A program that reads no such answer has its first use of a tool refused.
func (h *Hook) promptRefused(ctx context.Context, in *hookInput, list []events.Event) (answer HookAnswer, ok bool) {
	if h.Begins == nil || in.event != "UserPromptSubmit" || in.program == copilot {
		return answer, false
	}
	ev := h.prompted(in, list)
	if ev == nil {
		return answer, false
	}
	v := h.Begins(ctx, ev)
	if v == nil {
		return answer, false
	}
	return in.refusedPrompt("weir " + string(v.Reason) + ": " + agentText(v)), true
}

// prompted returns the event of a prompt, and that of the one before in its session when it made none.
func (h *Hook) prompted(in *hookInput, list []events.Event) *events.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := keyOf(in.text("session_id"))
	if i := slices.IndexFunc(list, func(ev events.Event) bool { return ev.Kind == events.AgentCall }); i >= 0 {
		ev := list[i]
		h.begun.Put(key, &ev)
		return &ev
	}
	ev, _ := h.begun.Get(key)
	return ev
}

// read makes events of the input. They own what they hold.
// The lock is held until all is copied, since a reader's event is good until emit returns.
func (h *Hook) read(in *hookInput) (list []events.Event, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	session := in.text("session_id")
	// Clocks of those who run agents are not trusted: the time is that of the answer.
	in.fields["time"] = quoted(events.RFC3339(events.StampOf(now)).String())
	if in.text("prompt_id") == "" { // so that two prompts of a session are two flows
		key := keyOf(session)
		p, known := h.prompts.Get(key)
		switch {
		case in.event == "UserPromptSubmit":
			// The first is the session's own flow: Copilot CLI does not wait for the
			// hook of the prompt before it runs that of a tool.
			if p = (prompt{before: p.id}); known {
				p.id = h.unique()
			}
			h.prompts.Put(key, p)
		case in.ends() && in.program == gemini && string(in.fields[again]) == "true":
			// What was taken for a prompt was what a hook said that did not let the turn
			// end: Gemini CLI hands that over as one.
			p.id = p.before
			h.prompts.Put(key, p)
		}
		in.fields["prompt_id"] = quoted(p.id)
	}
	if in.text("tool_name") != "" && in.text("tool_use_id") == "" {
		in.fields["tool_use_id"] = quoted(h.useID(in.event, keyOf(session, in.text("tool_name"), string(in.fields["tool_input"]))))
	}
	line, err := json.Marshal(in.fields)
	if err != nil {
		return nil, err
	}
	err = h.readers[in.program].Decode(line, func(ev *events.Event) {
		own := *ev
		// Counters begin anew with the process, so the id has the word of this run in it.
		if in.text("tool_use_id") == "" { // a prompt or an end, of which an id that is counted would come again after a restart
			own.ID = h.unique()
		}
		own.From, own.To = in.named(own.From), in.named(own.To)
		own.Time = events.StampOf(now)
		own.Ask = in.asks() && own.Kind != events.LLMCall || in.ends() && own.Kind == events.AgentCall
		// By way of its JSON, so that nothing aliases the reader's memory, and nothing goes to
		// Ask that Decode would refuse.
		var copied events.Event
		if err = events.Decode(own.AppendJSON(nil), &copied); err == nil {
			list = append(list, copied)
		}
	})
	return list, err
}

// useID is an id for a use of a tool that came without one: the same for its beginning
// and its end, another one when the same is used again.
// Without ids only the input of the tool distinguishes uses: of two equal ones at the same time
// the later id is kept.
func (h *Hook) useID(event, used string) string {
	if event != "PreToolUse" {
		if id, ok := h.open.Get(used); ok {
			h.open.Delete(used)
			return id
		}
	}
	id := h.unique()
	if event == "PreToolUse" {
		h.open.Put(used, id)
	}
	return id
}

// unique returns an id that no other use or prompt has. The caller holds the lock.
func (h *Hook) unique() string {
	h.serial++
	return h.word + "-" + strconv.FormatInt(h.serial, 36)
}

// quoted is a text as JSON.
func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // text always has a form
	return b
}
