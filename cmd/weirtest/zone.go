package weirtest

import "time"

// Zone is a time zone in which no day, and so no month, ends within six hours of now. A test with a budget for
// a day needs it if its weir runs by the clock of the machine: a new day would bring a new budget.
func Zone(now time.Time) string {
	if h := now.UTC().Hour(); h >= 6 && h < 18 {
		return "UTC"
	}
	return "Etc/GMT-12"
}
