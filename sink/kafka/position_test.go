package kafka

import (
	"math"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

func TestPositionOf(t *testing.T) {
	want := Position{3, 1 << 40, 2}
	headers, _ := want.appendTo(nil, nil)
	got, err := PositionOf(append([]kafkago.Header{{Key: "other", Value: []byte("x")}}, headers...))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	f := func(h ...kafkago.Header) {
		t.Helper()
		if p, err := PositionOf(h); err == nil {
			t.Errorf("%v is read as %+v", h, p)
		}
	}
	h, _ := want.appendTo(nil, nil)
	f()
	f(h[0], h[1])
	f(h[0], h[1], decimal(fromPartHeader, -1))
	f(h[0], h[1], decimal(fromPartHeader, 1<<31))
	f(h[0], h[2], kafkago.Header{Key: fromOffsetHeader, Value: []byte("1x")})
	f(h[0], h[2], decimal(fromOffsetHeader, math.MaxInt64))
}
