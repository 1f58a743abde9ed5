package wal

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// Whatever is read, it is no group or one that says the same when it is written again.
func FuzzGroup(f *testing.F) {
	f.Add(appendGroup(nil, Group{First: 5, Values: [][]byte{[]byte("a"), {}, bytes.Repeat([]byte("b"), block)}}, 7))
	f.Add(make([]byte, block))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= header { // or hardly anything would be one
			if size := int(binary.LittleEndian.Uint32(b[28:])); size >= header && size <= len(b) {
				binary.LittleEndian.PutUint64(b, sum(b[:size]))
			}
		}
		g, round, length, ok := parse(b)
		if !ok {
			return
		}
		again, sameRound, sameLength, ok := parse(appendGroup(nil, g, round))
		if !ok || !reflect.DeepEqual(g, again) || round != sameRound || length < sameLength {
			t.Errorf("%v of round %d in %d bytes, and written again %v of %d in %d", g, round, length, again, sameRound, sameLength)
		}
	})
}
