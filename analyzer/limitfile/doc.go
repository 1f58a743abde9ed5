// Package limitfile reads, prints, compares and imports limits files, the YAML form of analyzer.Limits. JSON is read as
// YAML.
//
// A file names a profile and what differs from it. It is read strictly, because a
// limit that is silently not there is worse than a file that is refused: an unknown
// key, a key given twice, a wrong type, a value that could never be reached and an
// override without reason or end are each refused with line, column and a way out,
// all of them at once. Anchors, aliases, merge keys and tags are refused, and so are
// files above MaxSize and nesting that no limits file needs.
//
// The package does no I/O and never asks for the time.
package limitfile
