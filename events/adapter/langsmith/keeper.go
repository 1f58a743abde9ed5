package langsmith

// At says where in its input the record is that is decoded next.
func (r *reader) At(place int64) {
	r.place = place
	r.tree.At(place)
}

// Oldest returns the place of the first run that is remembered: of a trace, of one that
// has not ended, or of a multipart body that is still read.
func (r *reader) Oldest() (place int64, ok bool) {
	place, ok = r.tree.Oldest()
	for _, p := range r.posted.All() {
		if !ok || p.place < place {
			place, ok = p.place, true
		}
	}
	if (r.open != nil || len(r.ready) > 0) && (!ok || r.began < place) {
		place, ok = r.began, true
	}
	return place, ok
}
