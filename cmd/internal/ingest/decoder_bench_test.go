package ingest

import (
	"fmt"
	"testing"

	"weir/events"
	"weir/events/envelope"
)

// BenchmarkDecoder measures records of weir's own format, once detected by their content and once
// named.
func BenchmarkDecoder(b *testing.B) {
	var records [][]byte
	for i := range 1000 {
		records = append(records, fmt.Appendf(nil, `{"id":"m-%d","source":"/bus","time":"2026-11-20T14:00:04.123Z","kind":"tool.call","correlation_id":"flow-%d","from":{"agent":"planner"},`+
			`"tool":{"name":"search","call_id":"c-%d","args_hash":"xxh64:4f3a2b9c00112233"},"trace_id":"0af7651916cd43dd8448eb211c80319c"}`, i, i/20, i))
	}
	for _, format := range []string{"", "canonical"} {
		b.Run("format="+format, func(b *testing.B) {
			d, err := NewDecoder(DecoderOptions{Format: format})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if err := d.Decode(int64(n), envelope.Message{Value: records[n%len(records)]}, func(*events.Event) {}); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}
