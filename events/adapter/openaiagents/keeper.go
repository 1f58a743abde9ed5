package openaiagents

// At says where in its input the record is that is decoded next, see adapter.Keeper. The tree
// remembers it with the traces that begin there.
func (r *reader) At(place int64) { r.tree.At(place) }

// Oldest returns the place of the first span of all traces that are remembered.
func (r *reader) Oldest() (place int64, ok bool) { return r.tree.Oldest() }
