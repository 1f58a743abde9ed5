// Package spelling finds the nearest known word for an unknown one, for error messages, and begins sentences.
//
// The distance is written here rather than taken from a library: two letters swapped
// are the commonest slip, which the small libraries count as two, and those that
// count it as one are catalogues of measures.
package spelling

import "strings"

// longest is how many bytes a word may have to be compared: the cost is the product
// of both lengths, and what is longer is no slip of anybody's fingers.
const longest = 64

// Nearest returns the word of the list that is most like word, or "" when none is
// like it. Case, hyphens, underscores and spaces make no difference; up to a quarter of
// the letters may, and one always.
func Nearest(word string, list []string) string {
	if len(word) > longest {
		return ""
	}
	folded := fold(word)
	best, least := "", 2*max(1, len(word)/4)+1
	for _, w := range list {
		if d := distance(folded, fold(w)); d < least {
			best, least = w, d
		}
	}
	return best
}

// Same reports whether two words differ in case, hyphens, underscores and spaces at
// most.
func Same(a, b string) bool { return fold(a) == fold(b) }

var folder = strings.NewReplacer("_", "", "-", "", " ", "")

func fold(s string) string { return strings.ToLower(folder.Replace(s)) }

// distance is twice how many letters have to be added, dropped or changed to make b out of a. Two
// neighbours that are swapped count as half a letter: of words as near, that one was meant.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = 2 * j
	}
	for i := range len(a) {
		row[0] = 2 * (i + 1)
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change += 2
			}
			row[j+1] = min(change, last[j+1]+2, row[j]+2)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
