package limitfile

import "strings"

// nearest returns the name that was probably meant, or "" when none is near.
func nearest(s string, names []string) string {
	if len(s) > 64 {
		return ""
	}
	folded := fold(s)
	best, least := "", 1+max(1, len(s)/4)
	for _, n := range names {
		if fold(n) == folded {
			return n
		}
		if d := distance(folded, fold(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// fold makes names alike that differ in case, underscores and hyphens alone.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance is the number of letters to add, drop, change or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var twice []int
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		twice, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := before[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, before[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twice[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// meant is the hint for a name that is not one of names.
func meant(s string, names []string) string {
	if n := nearest(s, names); n != "" {
		if fold(n) == fold(s) {
			return "write it exactly so: " + n
		}
		return "did you mean " + n + "?"
	}
	if len(names) <= 12 {
		return "one of " + strings.Join(names, ", ")
	}
	return ""
}
