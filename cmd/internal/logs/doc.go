// Package logs reads recorded logs of any known format as one stream of events in time order. It knows files, folders
// and pipes, plain or compressed, and holds no more of them in memory than what it is reading and what it has to put in
// order.
package logs
