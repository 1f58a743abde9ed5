package fingerprint

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// plainFold and plainWord are what fold and word say, written down byte by byte.
func plainFold(dst, text []byte, isError bool) []byte {
	copied := 0
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		if n, name := volatile(text, i, isError); n > 0 {
			dst = append(append(dst, text[copied:i]...), name...)
			i += n
			copied = i
			continue
		}
		for i++; i < len(text) && isWord(text[i]); i++ {
		}
	}
	if copied == 0 {
		return text
	}
	return append(dst, text[copied:]...)
}

func plainWord(dst, text []byte, i int) ([]byte, int) {
	start := len(dst)
	for i < len(text) {
		r, n := utf8.DecodeRune(text[i:])
		isIn := unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
		switch {
		case isIn:
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		case len(dst) > start:
			return dst, i
		}
		i += n
	}
	return dst, i
}

// plainText is what Text says, written down word by word and bit by bit.
func plainText(text []byte) (value uint64) {
	var counts [64]int
	vote := func(feature []byte) {
		for b, h := 0, xxhash.Sum64(feature); b < 64; b++ {
			counts[b] += int(h>>b&1)*2 - 1
		}
	}
	var last []byte
	for i, n := 0, 0; n < maxWords; n++ {
		var w []byte
		if w, i = plainWord(nil, text, i); len(w) == 0 {
			break
		}
		if vote(w); n > 0 {
			vote(append(append(last, ' '), w...))
		}
		last = w
	}
	for b, n := range counts {
		if n > 0 {
			value |= 1 << b
		}
	}
	return value
}

// TestSigns holds isSign to what package unicode says.
func TestSigns(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if isSign(r) && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) {
			t.Errorf("%U is part of a word", r)
		}
	}
}

// TestPlain compares texts of all lengths, so that each word stands once at each place of a block.
func TestPlain(t *testing.T) {
	for _, s := range []string{"Order A-17 is pending at last, ", "straße ── 日本語 x’s ", "a ", strings.Repeat("longWord9", 7) + " b ", strings.Repeat("x", 20_000) + " y ",
		strings.Repeat("x", 130) + " " + strings.Repeat("y", 5000) + " " + strings.Repeat("é", 64) + " ab-" + strings.Repeat("é", 63) + "a ",
		"\xff, "} {
		text := []byte(strings.Repeat(s, max(3, 260/len(s))))
		for n := range min(len(text), 300) {
			for _, part := range [][]byte{text[n:], text[:n], text[:len(text)-n]} {
				if got, want := Text(part).Value, plainText(part); got != want {
					t.Fatalf("%q has the fingerprint %x, want %x", part, got, want)
				}
			}
		}
	}
}

// FuzzPlain holds what looks at eight bytes at a time to what looks at one.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"Order A-17 is pending, at 2026-11-21T15:03:36.642Z.", "x_Request-Id: q7f3 c_allid=abcd toolu_0123456789 re-turn",
		"ÄÖü straße_x 日本語 12é3 \xff\xfe@[`{/:AZaz09", "726b77f4-f289-4d2b-b5dc-13edd2f02e7a", "a longer word than eightbytes_or_so",
		"of aitxt-0123456789 call_0123456789 chatcmpl-0123456789 correlation_id=abcd adk-0123456789 \"request_id\": \"q-7\" msg_0123456789 resp_0123456789 Run_ID=abc",
		"a runId: abc, span_0123456789, tool_call_id=q-7, toolu_0123456789 and X-Request-Id: q-7 trace_0123456789 within more than sixty-four bytes, 12 of 1.5 ms 2026-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, isError := range []bool{false, true} {
			if got, want := string(fold(nil, text, isError)), string(plainFold(nil, text, isError)); got != want {
				t.Fatalf("%q is folded to %q, want %q", text, got, want)
			}
		}
		if got, want := Text(text).Value, plainText(text); got != want {
			t.Fatalf("%q has the fingerprint %x, want %x", text, got, want)
		}
		for i, k := 0, 0; ; {
			var got, want []byte
			got, i = word(nil, text, i)
			if want, k = plainWord(nil, text, k); string(got) != string(want) || i != k {
				t.Fatalf("%q has the word %q up to %d, want %q up to %d", text, got, i, want, k)
			}
			if len(got) == 0 {
				return
			}
		}
	})
}
