// Package analyzer folds events into the state of one flow and judges that state by a table of rules.
//
// The fold is a pure function of (limits, partition, flow, event): it reads no
// clock, does no I/O, starts no goroutine and depends on no map order. The live
// pump, the check, replay, scenario tests and recovery all call Engine.Step;
// there is no second evaluator.
//
// One step does four things in this order: it drops the event if it was folded
// before, fires every deadline up to the event's time (each at its own time),
// applies the event to the state, and walks the rules. Applying is the only code
// that counts; rules only measure, and never see each other.
package analyzer
