// Package app is the running program: around the pumps that fold a log it has
// the embedded form and the one on Kafka, with intake over HTTP and from files,
// journal and verdict log in one state directory, and the ways out. Everything here
// that is neither I/O nor order of effects belongs into the analyzer.
//
// The order of effects is: the journal has an event before its sender is told so; the
// verdicts of a batch are in the verdict log before a checkpoint may hold the flows
// that they came from; readers of the verdict log keep cursors of their own and are
// never waited for.
package app
