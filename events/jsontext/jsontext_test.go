package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"weir/events/jsontext"
)

func TestStringEnd(t *testing.T) {
	for n := range 20 {
		text := strings.Repeat("é", n/2) + strings.Repeat("a", n%2)
		for _, stop := range []string{`"`, `\`, "\n", "\x00"} {
			if got := jsontext.StringEnd([]byte("  "+text+stop+"rest"), 2); got != 2+len(text) {
				t.Errorf("%q before %q ends at %d", text, stop, got)
			}
		}
		if got := jsontext.StringEnd([]byte(text), 0); got != len(text) {
			t.Errorf("%q ends at %d", text, got)
		}
	}
}

// FuzzAppendUnescaped holds it to what the standard library reads.
func FuzzAppendUnescaped(f *testing.F) {
	for _, s := range []string{``, `a`, `\n\t\"\\\/\b\f\r`, `\u0041\u00e9\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ud83d\u0041`, `\ude00\ud83d`, `\x`, `\u12`, `\`, `a\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == '"' || r > '~' }) {
			return
		}
		got, known := jsontext.AppendUnescaped([]byte("before "), raw)
		var want string
		err := json.Unmarshal([]byte(`"`+string(raw)+`"`), &want)
		if known != (err == nil) || known && string(got) != "before "+want {
			t.Fatalf("%s: %q, %v, want %q, %v", raw, got, known, want, err)
		}
	})
}
