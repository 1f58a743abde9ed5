// Package house holds the laws of this repository as tests: who may import whom,
// what the pure packages may not do, and what stands at the top level. It has no
// code of its own.
package house
