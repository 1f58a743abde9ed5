// Package logs reads recorded logs, whatever program wrote them, as one stream of events in
// the order of their times. It knows files, folders and pipes, plain or compressed, and
// holds no more of them in memory than what it is reading and what it has to put in order.
package logs
