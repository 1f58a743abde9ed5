// Package jsonl follows growing files and pipes of JSON records, through rotation and half-written lines.
//
// It knows nothing of what the records mean; events/adapter does.
package jsonl
