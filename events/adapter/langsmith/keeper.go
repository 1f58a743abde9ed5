package langsmith

// At says where in its input the record is that is decoded next.
//
// See adapter.Keeper.
func (r *reader) At(place int64) {
	r.place = place
	r.tree.At(place)
}

// Oldest returns the place of the first run that is remembered: of a trace, of one that
// has not ended, or of a multipart body that is still read.
//
// A multipart body is read again from its first line, since a run may be spread over several.
func (r *reader) Oldest() (place int64, ok bool) {
	place, ok = r.tree.Oldest()
	for _, p := range r.posted.All() {
		if !ok || p.place < place {
			place, ok = p.place, true
		}
	}
	// The body counts as long as a part of it was not emitted.
	if (r.open != nil || len(r.ready) > 0) && (!ok || r.began < place) {
		place, ok = r.began, true
	}
	return place, ok
}
