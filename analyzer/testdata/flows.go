// Package rulebook is the rule book of this repository as files: the tests of the
// analyzer read them from this folder, and the inspector shows them.
package rulebook

import "embed"

// Files are the .flow files.
//
//go:embed *.flow
var Files embed.FS
