// Package rawconn reads and writes connections with raw system calls.
//
// A connection of package net never blocks in a system call, and still notifies the
// scheduler of each as if it could. On an idle machine the notification wakes the thread
// that watches the scheduler, which looks around some fifty times before it sleeps again.
// With one request after the other that was a fifth of the cost of an answer, and about as
// much of following a topic with single records. Waiting works as in package net, with its
// deadlines.
//
// The cost: during a call, a few microseconds, no other goroutine can use that processor,
// and a single long-running goroutine is interrupted later. Calls that wait for a disk must
// notify the scheduler and are not made here.
package rawconn
