package adapter

import "iter"

// Values gives the JSON values of a record one by one. There are several where two processes
// wrote a log at one time, and one of them its line before the other one had ended its own.
// What is no whole value is given as it is, for who reads it says what is wrong.
func Values(record []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(record) > 0 {
			var v value
			n, state := v.read(record)
			if state != finished {
				n = len(record)
			}
			if !yield(record[:n]) {
				return
			}
			for record = record[n:]; len(record) > 0 && (record[0] == ' ' || record[0] == '\t' || record[0] == '\r' || record[0] == '\n'); {
				record = record[1:]
			}
		}
	}
}
