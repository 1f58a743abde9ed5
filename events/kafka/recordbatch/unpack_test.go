package recordbatch

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/segmentio/kafka-go/compress"
)

// TestUnpackKeepsWhatItGave fills the arena in random steps.
func TestUnpackKeepsWhatItGave(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	u := unpacker{limit: 1 << 20}
	defer u.close()
	for round := range 20 {
		u.reset(1 << 16)
		var given, want [][]byte
		for range 50 {
			text := bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(5000))
			codec := int8(1 + random.IntN(4))
			var packed bytes.Buffer
			w := compress.Compression(codec).Codec().NewWriter(&packed) // snappy in frames
			if _, err := w.Write(text); err != nil {
				t.Fatal(err)
			}
			w.Close()
			got, err := u.unpack(codec, packed.Bytes())
			if err != nil && len(text) > 0 {
				t.Fatal(codec, err)
			}
			given, want = append(given, got), append(want, text)
		}
		for i := range given {
			if !bytes.Equal(given[i], want[i]) {
				t.Fatalf("round %d: what was given at %d was overwritten", round, i)
			}
		}
	}
}
