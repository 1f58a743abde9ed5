// Package activity defines the messages from the flow stage to the agent stage and the effects of a step. A flow tells
// of its parties, of calls that rules about agents count, and of what it spent, under the key of whom that concerns;
// the stage of agents hears nothing else. It promises that what was said stays good, without a copy, until the Effects
// are reset.
package activity
