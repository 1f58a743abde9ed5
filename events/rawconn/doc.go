// Package rawconn reads and writes connections with raw system calls.
//
// A connection of package net never lets a system call wait, and yet tells the scheduler of
// each of them as if it could. To be told, while nothing else is at work, wakes the thread
// that watches over the scheduler, which then looks around some fifty times before it
// sleeps again. Where one request comes after the other that was a fifth of what
// answering each took, and about as much of what it took to follow a topic to which single
// records come. What has to wait does so as in package net, with its deadlines.
//
// The price: while a call goes on, which takes some microseconds, nobody else gets the
// processor that it is on, and a goroutine that computes for long is interrupted later when
// it is the only one. Calls that wait for a disk have to be told of and are not made here.
package rawconn
