// Package jsonl follows files and pipes of JSON records while they are written: it
// cuts them into records, waits for the end of one that is half written, survives
// rotation, and says after each record where to go on after a restart.
//
// It knows nothing of what the records mean; events/adapter does.
package jsonl
