package otlp

import "math"

// At says where in its input the batch is that is decoded next.
// See adapter.Keeper.
func (r *reader) At(place int64) { r.place = place }

// Oldest returns the place of the first span of all remembered traces, and of the traces that they
// depend on. It includes the traces whose calls have no result yet.
func (r *reader) Oldest() (place int64, ok bool) {
	for _, t := range r.traces.All() {
		if from := min(t.place, t.reach); !ok || from < place {
			place, ok = from, true
		}
	}
	for _, made := range r.turns.open.All() {
		if made.place != math.MaxInt64 && (!ok || made.place < place) {
			place, ok = made.place, true
		}
	}
	return place, ok
}
