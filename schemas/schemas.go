// Package schemas holds the JSON Schemas of events, verdicts and files, with accepted and rejected examples. The tests
// hold them against the Go types. The package imports nothing of weir.
package schemas

import "embed"

// FS holds the schemas (*.json) and below examples the examples: event and verdict
// are good ones in their canonical form, laid out for reading; refused are events
// that are not accepted, and refused/index.json says of each with which code, in
// which field, and whether the schema refuses it too.
//
//go:embed *.json examples
var FS embed.FS

// Event returns the schema of events.
func Event() []byte { return read("event.v1.json") }

// Verdict returns the schema of verdicts.
func Verdict() []byte { return read("verdict.v1.json") }

// OpenAPI returns the description of the HTTP API, OpenAPI 3.1.
func OpenAPI() []byte { return read("openapi.v1.json") }

// read returns a file that the compiler has put into FS.
func read(name string) []byte {
	p, err := FS.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return p
}
