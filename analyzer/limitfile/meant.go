package limitfile

import (
	"strings"

	"weir/analyzer/spelling"
)

// meant is the hint for a name that is not one of names. It is empty where nothing is near and
// the names are too many to list.
func meant(s string, names []string) string {
	if n := spelling.Nearest(s, names); n != "" {
		if spelling.Same(n, s) {
			return "write it exactly so: " + n
		}
		return "did you mean " + n + "?"
	}
	if len(names) <= 12 {
		return "one of " + strings.Join(names, ", ")
	}
	return ""
}
