package spelling

import (
	"unicode"
	"unicode/utf8"
)

// Capital returns a text with its first letter as a capital, as at the beginning of a sentence.
func Capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if upper := unicode.ToUpper(first); upper != first {
		return string(upper) + text[size:]
	}
	return text
}

// Of is the word or the text for one, or for several.
func Of(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}
