package standing

import (
	"fmt"
	"strconv"

	"weir/events"
)

// WaitingText is what a message to people says of the cost of waiting.
func WaitingText(w *events.Waiting) string {
	at := events.Stamp(w.After).Time().Format("15:04:05")
	if w.CostUSD == 0 {
		return fmt.Sprintf(". After %s UTC the next call writes %s cached tokens again.", at, grouped(w.Tokens))
	}
	return fmt.Sprintf(". After %s UTC the next call costs about $%.2f more, because %s cached tokens are written again.", at, w.CostUSD, grouped(w.Tokens))
}

// grouped writes a number that is not negative with a comma before each three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
