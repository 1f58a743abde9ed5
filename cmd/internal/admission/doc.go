// Package admission bounds the connections and slow requests of a server, per address and in all. It promises that a
// newcomer finds a place as long as anybody who has one does nothing with it: the one that did nothing for the longest
// has to go.
package admission
