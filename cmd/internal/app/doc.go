// Package app wires the running program: it reads options, opens state and log backend, starts and stops all parts. It
// has no work of its own: requests are served by package api, asks answered by ask, files read by intake, verdicts
// passed on by forwarder, and events folded by pump.
//
// The order of effects is: the log has an event before its sender is told so; the
// verdicts of a batch are in the verdict log before a checkpoint may hold the flows
// that they came from; readers of the verdict log keep cursors of their own and are
// never waited for.
package app
