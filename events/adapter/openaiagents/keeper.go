// It is for adapter.Keeper.
package openaiagents

// At says where in its input the record is that is decoded next.
func (r *reader) At(place int64) { r.tree.At(place) }

// Oldest returns the place of the first span of all traces that are remembered.
func (r *reader) Oldest() (place int64, ok bool) { return r.tree.Oldest() }
