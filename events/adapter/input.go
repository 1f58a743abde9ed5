package adapter

import "weir/events"

// Branching is implemented by adapters to which a record may be a piece of something
// longer, such as a line of a multipart body. Who gives one adapter the records of several
// inputs (requests, files) gives those of each to a branch of its own: else what one input
// has begun swallows what another one tells.
type Branching interface {
	// Branch returns an adapter for one more input. It shares with the others what is known
	// of runs, and nothing of what an input has begun. Its Flush ends its input and leaves
	// what all of them hold back; that is told by the Flush of the adapter it was made of.
	Branch() Adapter
}

// BranchOf returns a branch of a, or a itself when its records are whole.
func BranchOf(a Adapter) Adapter {
	if b, ok := a.(Branching); ok {
		return b.Branch()
	}
	return a
}

// DecodeWhole decodes a record that is all there is of its input: a request, or a record
// of a log that many write.
func DecodeWhole(a Adapter, record []byte, emit func(*events.Event)) error {
	b, ok := a.(Branching)
	if !ok {
		return a.Decode(record, emit)
	}
	input := b.Branch()
	err := input.Decode(record, emit)
	if ferr := input.Flush(emit); err == nil {
		err = ferr
	}
	return err
}
