package cli

// Nearest returns the word of the list that is most like word, or "" when none is
// like it at all.
func Nearest(word string, list []string) string {
	best, at := "", max(1, len(word)/3)+1
	for _, w := range list {
		if d := distance(word, w); d < at {
			best, at = w, d
		}
	}
	return best
}

// distance is how many letters have to be added, dropped, changed or swapped with
// their neighbour to make b out of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
