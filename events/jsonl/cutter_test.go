package jsonl

import (
	"bytes"
	"slices"
	"testing"
)

// cutAll cuts what comes in pieces of step bytes.
func cutAll(in []byte, documents bool, step int) (out [][]byte, rest []byte) {
	c := cutter{documents: documents}
	var buf []byte
	for len(in) > 0 {
		n := min(step, len(in))
		buf, in = append(buf, in[:n]...), in[n:]
		for {
			end, ok := c.find(buf)
			if !ok {
				break
			}
			out = append(out, bytes.Clone(buf[:end]))
			buf = buf[end:]
			c.reset()
		}
	}
	return out, buf
}

// FuzzCutter holds that nothing is lost or made up, and that records do not depend on
// how the bytes come in.
func FuzzCutter(f *testing.F) {
	f.Add([]byte("{\"a\": \"}\\\"\"\n}\n[1,\n2]\n{ broken\n{}\n"), true, 3)
	f.Add([]byte("1\n\n2\r\n3"), false, 1)
	f.Fuzz(func(t *testing.T, in []byte, documents bool, step int) {
		step = max(1, min(step, len(in)))
		whole, left := cutAll(in, documents, len(in)+1)
		parts, rest := cutAll(in, documents, step)
		if !slices.EqualFunc(whole, parts, bytes.Equal) || !bytes.Equal(left, rest) {
			t.Fatalf("in one piece %q and %q, in pieces of %d %q and %q", whole, left, step, parts, rest)
		}
		if got := append(bytes.Join(whole, nil), left...); !bytes.Equal(got, in) {
			t.Fatalf("%q was cut into %q and %q", in, whole, left)
		}
		for _, r := range whole {
			if len(r) == 0 || r[len(r)-1] != '\n' {
				t.Fatalf("record %q has no end", r)
			}
		}
	})
}
