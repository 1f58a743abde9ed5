package adapter

import "weir/events"

// Format is one log format and how to read it.
type Format struct {
	Name    string // as on the command line
	Title   string // one line for people
	Framing Framing
	Score   func(*Head) Match // whether the beginning of an input looks like this format
	New     func(Options) Adapter
	// Gives documents for users which facts rules can count on; it does not change what is
	// read.
	Gives Gives

	// Apart says that no input of this format explains what stands in another one, so that
	// each may be read by an adapter of its own, at any time.
	Apart bool
	// Held reports that records of other formats hold such records, and go before them.
	Held bool
}

// By returns the format with another order of what flows are called by. The name of the
// order stands behind that of the format: "otlp@conversation,trace".
//
// It is for logs whose producers use an id in another sense than most.
func (f Format) By(order ...events.CorrelationSource) Format {
	made := f.New
	for i, source := range order {
		f.Name += string("@,"[min(i, 1)]) + source.String()
	}
	f.New = func(o Options) Adapter {
		o.Correlation = order
		return made(o)
	}
	return f
}

// Framing says what a record of a format is.
type Framing uint8

// The framings.
const (
	Lines     Framing = iota // each line is one JSON value
	Documents                // a JSON value may span many lines
)

// String returns the framing in one word.
func (f Framing) String() string {
	if f == Documents {
		return "documents"
	}
	return "lines"
}

// Match says how well the beginning of an input fits a format.
//
// Scores are compared in registry.Detect: one Certain beats any number of Maybe.
type Match uint8

// The matches. Certain means that members were found which no other format has.
const (
	NoMatch Match = iota
	Maybe
	Certain
)

// Level says how much of something a format contains.
type Level uint8

// The levels.
const (
	Never     Level = iota // the format has no place for it
	Sometimes              // it depends on the producer's settings or version
	Always
)

// String returns the level in one word.
func (l Level) String() string { return [...]string{"never", "sometimes", "always"}[min(l, Always)] }

// Gives says what the rules can count on with a format.
type Gives struct {
	Tools   Level // calls of tools
	Args    Level // hashes of the arguments of tool calls
	Results Level // hashes of the results of tool calls and of answers
	Caller  Level // who called an agent
	Turn    Level // goal turns
	Tokens  Level // deltas of tokens
	Time    Level // when things happened; never means that times are made up
	Starts  Level // calls are reported when they begin, not only when they have ended
	Work    Level // whether a hop came without work
	Tasks   Level // tasks, and how often one was begun again
}
