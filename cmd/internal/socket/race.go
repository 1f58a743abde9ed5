//go:build race

package socket

import "net"

// Direct returns c as it is: the race detector learns by the reads and writes of package net
// what came before what, where both ends of a connection are in one process.
func Direct(c net.Conn) net.Conn { return c }
