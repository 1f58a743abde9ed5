// Package cli is what all commands of a program share: one table of commands from
// which help, completion and the reference are made, the parsing of flags, output
// as table, JSON or YAML, messages on standard error, and progress.
//
// A command gets everything it may use of the outside (streams, environment,
// clock, signals) in an Env, so that tests run it in their own process. The package
// has no state of its own.
package cli
