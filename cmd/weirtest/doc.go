// Package weirtest builds weir for tests, starts it, and finds ports for it. Only tests and the programs
// that try weir import it. It is not internal, because tests below events and sink need it too.
package weirtest
