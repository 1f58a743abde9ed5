// Package rulebook holds a scenario for each rule: just under, at and over its limit. The tests of the analyzer hold
// the fold to it, and the inspector shows it, so it is a part of the program.
package rulebook

import "embed"

// Files are the .flow files.
//
//go:embed *.flow
var Files embed.FS
