// Package app wires the running program: it reads options, opens state and log backend, starts and stops all parts. It
// has no work of its own. Package api serves requests, ask answers checks, intake reads files, forwarder
// passes verdicts on, and pump folds events.
//
// The order of effects is: the log has an event before its sender gets the acknowledgement. The
// verdicts of a batch are in the verdict log before a checkpoint may hold the flows
// that they came from. Readers of the verdict log keep cursors of their own and are
// never waited for.
package app
