package byhand

import "strings"

// Glob reports whether a pattern fits a text that is not empty: a star stands for any text, a
// question mark for one character. It takes time in proportion to the product of both lengths.
func Glob(pattern, text string) bool {
	if text == "" {
		return false
	}
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0
	for i, j := 0, 0; ; {
		switch {
		case j == len(t):
			return strings.Trim(string(p[i:]), "*") == ""
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0: // let the last star stand for one character more
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
}
