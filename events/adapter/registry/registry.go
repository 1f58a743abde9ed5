// Package registry lists the log formats that weir reads.
package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/a2a"
	"weir/events/adapter/adk"
	"weir/events/adapter/agentgateway"
	"weir/events/adapter/autogen"
	"weir/events/adapter/caco"
	"weir/events/adapter/canonical"
	"weir/events/adapter/chat"
	"weir/events/adapter/claudecode"
	"weir/events/adapter/claudehooks"
	"weir/events/adapter/cline"
	"weir/events/adapter/cloudevents"
	"weir/events/adapter/codex"
	"weir/events/adapter/copilot"
	"weir/events/adapter/crewai"
	"weir/events/adapter/geminicli"
	"weir/events/adapter/langfuse"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/litellm"
	"weir/events/adapter/llamaindex"
	"weir/events/adapter/managedagents"
	"weir/events/adapter/mapped"
	"weir/events/adapter/mcp"
	"weir/events/adapter/openaiagents"
	"weir/events/adapter/opencode"
	"weir/events/adapter/openhands"
	"weir/events/adapter/otlp"
	"weir/events/adapter/otlplogs"
	"weir/events/adapter/phoenix"
	"weir/events/adapter/qwencode"
	"weir/events/adapter/spanjson"
	"weir/events/adapter/tinyagi"
	"weir/events/adapter/trace"
)

// Formats returns all formats, in the order in which they are shown.
// The order decides nothing: Detect asks all of them.
func Formats() []adapter.Format {
	return slices.Concat([]adapter.Format{
		canonical.Format(),
		otlp.Format(),
		otlplogs.Format(),
		claudecode.Format(),
		claudehooks.Format(),
		codex.Format(),
		copilot.Format(),
		geminicli.Format(),
		qwencode.Format(),
		opencode.Format(),
		cline.Format(),
		managedagents.Format(),
		trace.Format(),
		openaiagents.Format(),
		langsmith.Format(),
		langfuse.Format(),
		phoenix.Format(),
		spanjson.Format(),
		litellm.Format(),
		crewai.Format(),
		autogen.Format(),
		mcp.Format(),
		openhands.Format(),
		adk.Format(),
		a2a.Format(),
		llamaindex.Format(),
		agentgateway.Format(),
		caco.Format(),
		tinyagi.Format(),
		cloudevents.Format(),
	}, chat.Formats())
}

// sources is the table: each adapter has its own rows. Sample is a recorded log below events/adapter/testdata; a test
// holds SOURCES.md to the same rows.
//
// Where several rows have one format, its name stands for the first of them, see Source.
func sources() []adapter.Source {
	return slices.Concat(
		// Events of weir's own go first: nothing has to be read into them.
		canonical.Sources(),
		cloudevents.Sources(),
		// From here to voltagent are spans, and between them the exports of those who collect spans.
		// The general row stands before the libraries of which something is particular.
		otlp.Sources(),
		langfuse.Sources(),
		phoenix.Sources(),
		spanjson.Sources(),
		litellm.Sources(),
		otlp.LibrarySources(),
		// Agents that write code, by the logs that they keep of themselves.
		claudecode.Sources(),
		claudehooks.Sources(),
		codex.Sources(),
		copilot.Sources(),
		geminicli.Sources(),
		qwencode.Sources(),
		opencode.Sources(),
		cline.Sources(),
		otlplogs.Sources(),
		// Libraries and services, by records of a form of their own.
		managedagents.Sources(),
		openaiagents.Sources(),
		langsmith.Sources(),
		crewai.Sources(),
		autogen.Sources(),
		openhands.Sources(),
		llamaindex.Sources(),
		adk.Sources(),
		// Traffic between agents, clients and servers, as a component in between recorded it.
		mcp.Sources(),
		a2a.Sources(),
		agentgateway.Sources(),
		// Single programs, and recorded runs.
		caco.Sources(),
		tinyagi.Sources(),
		trace.Sources(),
		// Transcripts of one reader, by their dialects.
		chat.Sources(),
		// Mappings have the last row, where Source looks for it.
		mapped.Sources(),
	)
}

// ErrUnknown is returned when no format has a name or fits an input.
// Both errors are matched by errors.Is; the text behind them is for people.
var ErrUnknown = errors.New("unknown format")

// ErrAmbiguous is returned when an input fits several formats.
// A user then has to name one: two readers of one log would report different flows.
var ErrAmbiguous = errors.New("ambiguous format")

// Lookup returns the format of that name, or that of a mapping ("map:from=.sender,...",
// see package mapped). Behind the name may stand by what flows are called, first hit
// first: "otlp@conversation,trace". The error says what is wrong with the mapping or the
// order, or wraps ErrUnknown and lists the names.
func Lookup(name string) (adapter.Format, error) {
	if mapping, ok := strings.CutPrefix(name, mapped.Prefix); ok {
		if mapping == mapped.Auto {
			return adapter.Format{}, errors.New("a mapping is proposed by the beginning of a file: weir replay FILE --map auto prints it, for use here")
		}
		f, err := mapped.Format(mapping)
		if err != nil {
			return f, fmt.Errorf("mapping: %w", err)
		}
		return f, nil
	}
	base, by, ordered := strings.Cut(name, "@")
	// A mapping has no @: it says itself what its flows are called.
	for _, f := range Formats() {
		switch {
		case f.Name != base:
		case !ordered:
			return f, nil
		// These two read events of weir, which carry a correlation id already; another order
		// would be passed over silently.
		case base == canonical.Format().Name || base == cloudevents.Format().Name:
			return f, fmt.Errorf("%s: the events say themselves what their flows are called", name)
		default:
			order, err := orderOf(by)
			if err != nil {
				return f, fmt.Errorf("%s: %w", name, err)
			}
			return f.By(order...), nil
		}
	}
	// A program has a name of its own, and may write several formats.
	var written []string
	for _, s := range Sources() {
		if (alike(s.Name, base) || slices.ContainsFunc(s.Known, func(known string) bool { return alike(known, base) })) && !slices.Contains(written, s.Format) {
			written = append(written, s.Format)
		}
	}
	if len(written) > 0 {
		return adapter.Format{}, fmt.Errorf("%w %q: what programs of that name write is read as %s", ErrUnknown, name, strings.Join(written, " or "))
	}
	return adapter.Format{}, fmt.Errorf("%w %q: want one of %s, or a mapping such as map:correlation_id=.flow,from=.sender,to=.target", ErrUnknown, name, names(Formats()))
}

// orderOf reads the names of what flows may be called by.
//
// The words are those of events.CorrelationSource; an empty one is none of them.
func orderOf(text string) (order []events.CorrelationSource, err error) {
	for name := range strings.SplitSeq(text, ",") {
		source, ok := events.ParseCorrelationSource(name)
		if !ok {
			var names []string
			for _, s := range adapter.Order() {
				names = append(names, s.String())
			}
			return nil, fmt.Errorf("flows are not called by %q; want %s", name, strings.Join(names, ", "))
		}
		order = append(order, source)
	}
	return order, nil
}

// Detect returns the format of an input by its beginning, of which a few KiB are
// enough. A format that fits for certain beats one that may fit. The error wraps
// ErrUnknown, or ErrAmbiguous and then names the formats that fit.
// A program that is not sure asks for --format: a wrong guess would read a log and find nothing in
// it.
//
// A mapping's format is never detected, for any JSON would fit.
func Detect(head []byte) (adapter.Format, error) {
	// A database or an archive is recognized by its first bytes and never read.
	if err := adapter.CheckText(head); err != nil {
		return adapter.Format{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	f, err := detect(head, Formats())
	if _, none := errors.AsType[noneOf](err); none {
		if nearest := nearestTo(head); nearest != "" {
			return f, fmt.Errorf("%w: %s", ErrUnknown, nearest)
		}
	}
	return f, err
}

// noneOf is the error that none of this number of formats fits.
type noneOf int

func (n noneOf) Error() string {
	return fmt.Sprintf("it looks like none of the %d that are read; name one with --format", int(n))
}

// Propose returns a mapping for a log of which Detect knows no format, and what it reads of the
// beginning.
func Propose(head []byte) (*mapped.Proposal, error) {
	if err := adapter.CheckText(head); err != nil {
		return nil, err
	}
	if h := hintOf(&adapter.Head{Bytes: head}); h != nil && h.mapping != "" {
		if p := mapped.Try(h.mapping, head); p != nil {
			return p, nil
		}
	}
	p, err := mapped.Propose(head)
	if near := nearestTo(head); err != nil && near != "" { // a table, or lines of text
		err = fmt.Errorf("%w; %s", err, near)
	}
	return p, err
}

// detect is apart from Detect so that its caller chooses the formats.
func detect(head []byte, formats []adapter.Format) (adapter.Format, error) {
	beginning := &adapter.Head{Bytes: head}
	best, fit := adapter.Maybe, []adapter.Format(nil)
	// It starts at Maybe: what does not match at all is below it and never counted.
	for _, f := range formats {
		switch m := f.Score(beginning); {
		case m < best:
		case m == best:
			fit = append(fit, f)
		default:
			best, fit = m, []adapter.Format{f}
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		if h := hintOf(beginning); h != nil {
			return adapter.Format{}, fmt.Errorf("%w: %v", ErrUnknown, h)
		}
		return adapter.Format{}, fmt.Errorf("%w: %w", ErrUnknown, noneOf(len(formats)))
	}
	return adapter.Format{}, fmt.Errorf("%w: the input looks like each of %s; name one with --format", ErrAmbiguous, names(fit))
}

// names is for messages to people.
func names(formats []adapter.Format) string {
	var out []string
	for _, f := range formats {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}
