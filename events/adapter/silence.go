package adapter

// Silence is why a span gave no event.
//
// Users see the sums, which show whether weir understands a library.
type Silence uint8

// The silences.
const (
	SilentUnknown  Silence = iota // nothing in it says that it is about an agent, a tool or a model
	SilentStep                    // it only ties others together, such as a node of a graph
	SilentTwice                   // another span reports the same
	SilentNoTokens                // a request to a model that reports neither tokens nor an error
	SilenceCount
)

// String returns the silence in one word.
func (s Silence) String() string {
	return [...]string{"unknown", "step", "told_twice", "no_tokens", ""}[min(s, SilenceCount)]
}

// Silences counts spans that gave no event, by why.
type Silences [SilenceCount]int64

// Sum is how many spans gave no event.
func (s *Silences) Sum() (n int64) {
	for _, of := range s {
		n += of
	}
	return n
}
