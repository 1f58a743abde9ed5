package otlp

import (
	"bytes"
	"math"
)

// Free is the rule by which spans are read that follow no convention, in words for the user.
const Free = "A span of no convention that is known is what an attribute says of it that is called span, event, entity or run and kind or type, in whatever spelling " +
	"(mlflow.spanType, lmnr.span.type, agentops.span.kind, span_type): a tool, an agent, a model or a chain; then the attributes whose names end in input and output are what went in and came out."

// free is what a span says of itself under names of its program's own.
// It is only used where no convention says what the span is.
type free struct {
	kind          []byte // in the words of OpenInference, nil for none
	rank          int    // of the name that told it
	input, output []byte
	entity        []byte // name of what the span is of
}

// freeKinds are the words for kinds of spans, and what OpenInference calls them.
// A new word for a kind needs a line here and nothing else.
var freeKinds = map[string]string{
	"TOOL": "TOOL", "TOOL_CALL": "TOOL", "TOOL_EXECUTION": "TOOL", "MCP_TOOL_CALL": "TOOL",
	"AGENT": "AGENT", "AGENT_RUN": "AGENT",
	"LLM": "LLM", "LLM_CALL": "LLM", "CHAT_MODEL": "LLM", "MODEL": "LLM", "GENERATION": "LLM", "LLM_GENERATION": "LLM", "MODEL_GENERATION": "LLM",
	"RETRIEVER": "RETRIEVER", "CHAIN": "CHAIN",
}

// freeKindNames end the names of attributes that tell the kind of a span, without what stands
// between words; the first are preferred, for an entity may be what the span belongs to.
var freeKindNames = [...]string{"spankind", "spantype", "eventtype", "runtype", "entitykind", "entitytype"}

const entityName = "entityname"

// isFreeName tells whether an attribute may be of use for its name alone.
// It is asked for each attribute, so it looks at the last letter first.
func isFreeName(key []byte) bool {
	switch n := len(key); {
	case n < 5:
		return false
	case key[n-1] == 'e' || key[n-1] == 'd':
		_, is := kindName(key)
		return is || endsIn(key, entityName)
	default:
		return endsIn(key, "input") || endsIn(key, "inputs") || endsIn(key, "output") || endsIn(key, "outputs")
	}
}

func kindName(key []byte) (rank int, ok bool) {
	for rank, name := range freeKindNames {
		if endsIn(key, name) {
			return rank, true
		}
	}
	return 0, false
}

// endsIn tells whether the last words of a name are these, in whatever spelling: "span.type",
// "span_type", "spanType". A word begins behind what is no letter, or with a capital.
// Letters are compared in either case.
func endsIn(key []byte, words string) bool {
	n := len(key)
	first := byte(0)
	for i := len(words) - 1; i >= 0; i-- {
		for n > 0 && isBetween(key[n-1]) {
			n--
		}
		if n--; n < 0 {
			return false
		}
		if first = key[n]; first|0x20 != words[i] {
			return false
		}
	}
	return n == 0 || isBetween(key[n-1]) || first >= 'A' && first <= 'Z'
}

func isBetween(c byte) bool { return c == '.' || c == '_' || c == '-' }

// take notes an attribute that isFreeName let through. Where several names tell a kind the
// preferred one counts, and of inputs and outputs the last.
func (f *free) take(key, value []byte) {
	if rank, ok := kindName(key); ok {
		word := bytes.ToUpper(bytes.ReplaceAll(unquoted(value), []byte("-"), []byte("_")))
		if kind := freeKinds[string(word)]; kind != "" && (f.kind == nil || rank < f.rank) {
			f.kind, f.rank = []byte(kind), rank
		}
		return
	}
	switch {
	case len(value) == 0, isNumber(value): // a count of tokens
	case endsIn(key, entityName):
		f.entity = value
	case endsIn(key, "input"), endsIn(key, "inputs"):
		f.input = value
	default:
		f.output = value
	}
}

func isNumber(p []byte) bool {
	for _, c := range p {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// settle gives a span the kind that it says to be, unless a convention says it, and then
// the content, too.
func (f *free) settle(a *attributes) {
	if f.kind == nil || a.has(spanKind) {
		return
	}
	a.text[spanKind], a.rank[spanKind] = f.kind, math.MaxUint8
	if a.has(operation) {
		return
	}
	fill := map[field][]byte{input: f.input, output: f.output}
	if string(f.kind) == "AGENT" {
		fill[agentName] = f.entity
	}
	for field, text := range fill {
		if !a.has(field) && len(text) > 0 {
			a.text[field], a.rank[field] = text, math.MaxUint8
		}
	}
}
