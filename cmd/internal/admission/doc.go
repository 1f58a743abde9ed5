// Package admission bounds the connections and slow requests of a server, per address and in all. It
// promises a place to a newcomer as long as any client holds an idle place. The place that was idle
// for the longest is freed.
package admission
