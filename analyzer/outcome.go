package analyzer

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// outcome fills in what is known of the result of the call: its content or what stands for it, and
// what the call achieved.
func (c *call) outcome(ev *events.Event) {
	o := ev.Tool.Outcome
	if o == nil {
		o = &noOutcome
	}
	failed := ev.Status == events.StatusError || ev.Status == events.StatusTimeout || ev.Status == events.StatusDenied
	// An edit that is refused under status ok is an error.
	if failed || o.Effect == events.EffectRejected {
		c.flags |= callError
	}
	c.content(ev, failed)
	switch {
	case o.Failed.Value > 0:
		// Whatever else a test program prints, such as times, the figures are the result.
		c.flags |= callTests | callHashed
		c.flags &^= callSim
		c.result, c.sim = testResult(o.Passed.Value, o.Failed.Value), 0
	case o.Effect == events.EffectChanged && !failed && !o.State.IsZero():
		// What it left is the result: the words with which it is acknowledged are alike whatever was
		// done.
		c.flags |= callWrote | callHashed
		c.flags &^= callSim
		c.result, c.sim = mix(o.State), 0
	case o.Effect == events.EffectChanged && !failed && c.flags&callSim != 0:
		c.flags |= callWrote // what it printed stays its result
	case o.Effect == events.EffectChanged && !failed && ev.Tool.ResultSize <= shortResult:
		c.flags |= callWrote | callHashed
		c.result = doneResult
	case c.flags&callHashed == 0 && o.Exit.Value != 0:
		// Nothing is known of a command but that it failed with this code.
		c.flags |= callHashed | callError
		c.result = exitResult(o.Exit.Value)
	default:
		c.brief(ev, o.Effect)
	}
}

// content fills in the hash and the fingerprint of the result, or what stands for them.
func (c *call) content(ev *events.Event, failed bool) {
	size := ev.Tool.ResultSize
	switch {
	case !ev.Content.IsZero() && (!failed || ev.Content != events.EmptyContent):
		c.flags |= callHashed
		c.result = mix(ev.Content)
	case !failed && size == 1:
		// So logs report a result that is empty, for 0 bytes mean that the size is unknown.
		c.flags |= callHashed
		c.result = emptyResult
	case failed && ev.ErrorType != "":
		// An error without content is known by its type, so that one tool that fails in one way
		// is seen to.
		c.flags |= callHashed
		c.result = xxhash.Sum64String(ev.ErrorType)
	case !failed && size > shortResult:
		c.result = sizedResult(size)
	}
	if !ev.Sim.IsZero() {
		c.flags |= callSim
		c.sim = ev.Sim.Value
	}
}

// brief notes of a short result that is no error what the same one for another call proves.
func (c *call) brief(ev *events.Event, effect events.Effect) {
	size := ev.Tool.ResultSize
	if c.flags&callError != 0 || (size == 0 || size > shortResult) && c.result != emptyResult {
		return
	}
	c.flags |= callShort
	if effect == events.EffectUnset {
		effect = events.NamedEffect(ev.Tool.Name)
	}
	switch {
	case effect == events.EffectRead:
		c.flags |= callLooks
	case effect == events.EffectUnset && size > fewWords:
		c.flags |= callCanned
	}
}

var noOutcome events.Outcome

// exitResult stands for the result of a command of which only the exit code is known.
func exitResult(code int64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(code))
	return xxhash.Sum64(b[:]) | 1
}

// testResult is the hash of the result of tests, by how many passed and failed.
func testResult(passed, failed int64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(passed))
	binary.LittleEndian.PutUint64(b[8:], uint64(failed))
	return xxhash.Sum64(b[:]) | 1
}
