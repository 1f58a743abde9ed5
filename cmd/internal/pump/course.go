package pump

// Course is how far a flow has come in its episode.
type Course struct {
	Episode      int64
	Calls        int64 // of agents and tools
	Tokens, Cost int64 // Cost in millionths of a US dollar
}

// Course returns how far the flow has come whose event was folded last; false if that was another flow.
// It returns figures only: the strings of the flow are those of a record that may be gone.
func (r *Replay) Course(flow string) (c Course, ok bool) {
	s, ok := r.flows.fold.stage.(*flowStage)
	if !ok || s.scratch.Key() != flow {
		return c, false
	}
	c.Calls = s.scratch.Calls()
	c.Episode, c.Tokens, c.Cost = s.scratch.Spent()
	return c, true
}
