package state

import (
	"bytes"
	"testing"
)

func FuzzPack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 255, 0})
	f.Add(bytes.Repeat([]byte{0}, 23))
	f.Add(bytes.Repeat([]byte{7}, 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		packed := appendPacked([]byte("head"), b)
		if len(packed) > 4+len(b)+(len(b)+7)/8 {
			t.Fatalf("%d bytes are %d when they are packed", len(b), len(packed)-4)
		}
		got := bytes.Repeat([]byte{9}, len(b))
		if !unpack(got, packed[4:]) || !bytes.Equal(got, b) {
			t.Fatalf("%x comes back as %x", b, got)
		}
		// Nothing else unpacks to as much from the same bytes, one less or one more.
		if len(b) > 0 && unpack(got, packed[4:len(packed)-1]) || unpack(got, append(packed[4:], 0)) {
			t.Fatal("bytes that are missing, or too many, are not found")
		}
		unpack(got, b) // whatever it is
	})
}

func BenchmarkPack(b *testing.B) {
	record := make([]byte, 680)
	for i := range record {
		if i%5 > 1 {
			record[i] = byte(i)
		}
	}
	var packed []byte
	b.SetBytes(int64(len(record)))
	for b.Loop() {
		packed = appendPacked(packed[:0], record)
	}
}
