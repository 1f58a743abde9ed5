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
	rank          int    // of the name that it was read from
	input, output []byte
	// entity is used as the name of an agent only.
	entity []byte // name of what the span is of
}

// freeKinds are the words for kinds of spans, and what OpenInference calls them.
// A new word for a kind needs a line here and nothing else.
//
// Words are compared in capitals, with underscores for dashes. Those that are not here are no
// kinds.
var freeKinds = map[string]string{
	"TOOL": "TOOL", "TOOL_CALL": "TOOL", "TOOL_EXECUTION": "TOOL", "MCP_TOOL_CALL": "TOOL",
	"AGENT": "AGENT", "AGENT_RUN": "AGENT",
	"LLM": "LLM", "LLM_CALL": "LLM", "CHAT_MODEL": "LLM", "MODEL": "LLM", "GENERATION": "LLM", "LLM_GENERATION": "LLM", "MODEL_GENERATION": "LLM",
	"RETRIEVER": "RETRIEVER", "CHAIN": "CHAIN",
}

// freeKindNames end the names of attributes that contain the kind of a span, without separators
// between words. The first are preferred, for an entity may be what the span belongs to.
//
// A kind that a span reports of itself is worth more than one of the entity that it works for.
var freeKindNames = [...]string{"spankind", "spantype", "eventtype", "runtype", "entitykind", "entitytype"}

const entityName = "entityname"

// isFreeName reports whether an attribute may be of use for its name alone.
// It runs for each attribute, so it looks at the last letter first.
//
// The shortest of them is input, of five letters.
func isFreeName(key []byte) bool {
	switch n := len(key); {
	case n < 5:
		return false
	// All other names than those of inputs and outputs end in e or d: kind, type, name.
	case key[n-1] == 'e' || key[n-1] == 'd':
		_, is := kindName(key)
		return is || endsIn(key, entityName)
	default:
		return endsIn(key, "input") || endsIn(key, "inputs") || endsIn(key, "output") || endsIn(key, "outputs")
	}
}

// kindName returns how far a name is from the preferred one, which is 0.
func kindName(key []byte) (rank int, ok bool) {
	for rank, name := range freeKindNames {
		if endsIn(key, name) {
			return rank, true
		}
	}
	return 0, false
}

// endsIn reports whether the last words of a name are these, in any spelling: "span.type",
// "span_type", "spanType". A word begins after a character that is not a letter, or with a capital.
// Letters are compared in either case.
//
// So "myspantype" does not match, as no word begins in it.
func endsIn(key []byte, words string) bool {
	n := len(key)
	first := byte(0)
	for i := len(words) - 1; i >= 0; i-- {
		// What stands between words is passed over.
		for n > 0 && isBetween(key[n-1]) {
			n--
		}
		if n--; n < 0 {
			return false
		}
		// words are in lower case, which 0x20 makes a letter of key.
		if first = key[n]; first|0x20 != words[i] {
			return false
		}
	}
	return n == 0 || isBetween(key[n-1]) || first >= 'A' && first <= 'Z'
}

// isBetween is true for what stands between words.
func isBetween(c byte) bool { return c == '.' || c == '_' || c == '-' }

// take notes an attribute that isFreeName accepted. Of several names with a kind the preferred one
// counts, and of inputs and outputs the last.
//
// A text is an input or an output only if it is no number: names of counts of tokens end in
// the same words.
func (f *free) take(key, value []byte) {
	if rank, ok := kindName(key); ok {
		word := bytes.ToUpper(bytes.ReplaceAll(unquoted(value), []byte("-"), []byte("_")))
		if kind := freeKinds[string(word)]; kind != "" && (f.kind == nil || rank < f.rank) {
			// A word that is no kind leaves the field free for another name.
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

// isNumber is true for digits alone.
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
//
// It is called before the conventions are asked, so that they find the kind where
// OpenInference would have it.
func (f *free) settle(a *attributes) {
	if f.kind == nil || a.has(spanKind) {
		return
	}
	// The worst rank, so that any name of a convention goes before it; there is none, or this
	// would not be reached.
	a.text[spanKind], a.rank[spanKind] = f.kind, math.MaxUint8
	// With an operation of the GenAI conventions the content stands where these have it.
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
