package adapter

import (
	"bytes"
	"iter"
)

// Values gives the JSON values of a record one by one. There are several where two processes
// wrote a log at one time, and one of them its line before the other one had ended its own.
// What is no whole value is given as it is, for who reads it says what is wrong.
func Values(record []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(record) > 0 {
			n := ValueEnd(record)
			if !yield(record[:n]) {
				return
			}
			record = bytes.TrimLeft(record[n:], " \t\r\n")
		}
	}
}

// ValueEnd is where the first JSON value of a record ends; where it is no whole value, the
// end of the record.
func ValueEnd(record []byte) int {
	var v value
	if n, state := v.read(record); state == finished {
		return n
	}
	return len(record)
}
