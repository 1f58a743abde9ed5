// Package admission decides who may stay connected to a server and whose request is
// read on, so that clients that hold connections open or send a body in drips keep
// nobody else out. It promises that a newcomer finds a place as long as anybody who has
// one does nothing with it: the one that did nothing for the longest has to go.
package admission
