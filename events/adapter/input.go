package adapter

import "weir/events"

// Branching is implemented by adapters to which a record may be a part of something longer, such
// as a line of a multipart body. A caller with several inputs (requests, files) for one adapter
// gives the records of each to a branch of its own. Otherwise the unfinished record of one input
// swallows the records of another one.
type Branching interface {
	// Branch returns an adapter for one more input. It shares the known runs with the others, but no
	// unfinished record of an input. Its Flush ends its input only. Events that all of them hold back
	// are emitted by the Flush of the adapter it was made of.
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
