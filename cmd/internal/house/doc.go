// Package house tests the rules of this repository: imports, purity, licences, documents and the top level. It has no
// code of its own.
package house
