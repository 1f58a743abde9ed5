package spantree

// At says where in its input the record is whose spans are added next.
//
// Places are the caller's, see adapter.Keeper.
func (t *Tree) At(place int64) { t.place = place }

// Oldest returns the place of the first span of all remembered traces, and of the traces that
// they depend on. It returns false when there are none.
func (t *Tree) Oldest() (place int64, ok bool) {
	for _, tr := range t.traces.All() {
		if !ok || tr.reach < place {
			place, ok = tr.reach, true
		}
	}
	return place, ok
}
