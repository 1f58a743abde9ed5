package fingerprint

import (
	"testing"
	"unicode"
	"unicode/utf8"
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
