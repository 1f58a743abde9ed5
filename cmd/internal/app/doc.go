// Package app is the wiring of the running program: it reads options, opens the state and
// one of the log backends, starts everything that works on them, and ends it in order. It
// has no work of its own: requests are served by package api, asks answered by ask, files
// read by intake, verdicts passed on by forwarder, and events folded by pump.
//
// The order of effects is: the log has an event before its sender is told so; the
// verdicts of a batch are in the verdict log before a checkpoint may hold the flows
// that they came from; readers of the verdict log keep cursors of their own and are
// never waited for.
package app
