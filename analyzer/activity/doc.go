// Package activity defines the messages from the flow stage to the agent stage, and the effects of a step. A flow
// reports its parties, the calls that rules about agents count, and what it spent. Each message has the key of the
// party, project or tree that it concerns. The agent stage has no other input. Messages stay valid, without a copy,
// until the Effects are reset.
package activity
