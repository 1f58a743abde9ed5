package adapter

import (
	"bytes"
	"iter"
)

// Values yields the JSON values of a record one by one. There are several if two processes wrote
// a log at one time, and one began its line before the other one had ended its own.
// An incomplete value is returned unchanged, because its reader reports the fault.
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
