// Package cli is shared by all commands: the command table, flags, help, completion, and output as table, JSON or CSV.
//
// A command gets everything it may use of the outside (streams, environment,
// clock, signals) in an Env, so that tests run it in their own process. The package
// has no state of its own.
package cli
