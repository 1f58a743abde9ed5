package kafka

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

func TestPositionOf(t *testing.T) {
	want := Position{3, 1 << 40, 2}
	got, err := PositionOf(append([]kafkago.Header{{Key: "other", Value: []byte("x")}}, want.headers()...))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	f := func(h ...kafkago.Header) {
		t.Helper()
		if p, err := PositionOf(h); err == nil {
			t.Errorf("%v is read as %+v", h, p)
		}
	}
	h := want.headers()
	f()
	f(h[0], h[1])
	f(h[0], h[1], decimal(fromPartHeader, -1))
	f(h[0], h[1], decimal(fromPartHeader, 1<<31))
	f(h[0], h[2], kafkago.Header{Key: fromOffsetHeader, Value: []byte("1x")})
}
