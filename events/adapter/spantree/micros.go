package spantree

import (
	"strconv"
	"time"
)

// Micros reads a time as µs since 1970: RFC 3339, the same without zone, which is
// taken for UTC, or a whole number of ms. 0 stands for none.
// What is before 1970 or after 9999 is a fault of the log, and none, too.
func Micros(p []byte) int64 {
	if len(p) == 0 {
		return 0
	}
	s := string(p)
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		// It is in ms.
		const latest = 253402300799999 // year 9999
		if ms < 0 || ms > latest {
			return 0
		}
		return ms * 1000
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04:05.999999999", s)
	}
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return 0
	}
	return at.UnixMicro()
}
