package e2e

import (
	"errors"
	"testing"
	"time"

	sinkkafka "weir/sink/kafka"
	"weir/sink/sign"
)

// TestSinkVerdictsAreSigned holds the header that says who gave an order, beside the one
// that says what brought it about.
func TestSinkVerdictsAreSigned(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 1), unique(t)
	keys := sign.Keys{{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}}
	emit := func(fn func([]byte) string, ids ...int) {
		t.Helper()
		v := sinkkafka.NewVerdicts(openProducer(t, b, group, topic, 0), time.Now).Signed(fn)
		if _, err := v.Emit(t.Context(), emitted(ids...)); err != nil {
			t.Fatal(err)
		}
	}
	emit(keys.Sign, 1, 2, 3)
	emit(sign.Keys(nil).Sign, 4)
	n := 0
	for _, r := range b.records(t, topic, 0) {
		headers := headersOf(r)
		if headers["weir-trigger"] == "" {
			continue // marks an owner
		}
		n++
		var want error
		if n == 4 {
			want = sign.ErrUnsigned
		}
		if err := keys.Verify(r.Value, headers[sign.RecordHeader]); !errors.Is(err, want) {
			t.Errorf("record %d: %v, want %v: %v", n, err, want, headers)
		}
	}
	if n != 4 {
		t.Errorf("%d verdicts, want 4", n)
	}
}
