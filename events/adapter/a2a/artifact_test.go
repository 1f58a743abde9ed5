package a2a

import "testing"

// TestPiecesGrow holds that pieces of an artifact are added to it without a copy of it for each.
func TestPiecesGrow(t *testing.T) {
	const pieces = 1000
	piece := []byte("x")[:1:1]
	for name, id := range map[string]string{"of one artifact": "a", "beyond the most that are distinguished": ""} {
		allocs := testing.AllocsPerRun(1, func() {
			var all artifacts
			for i := range pieces {
				all.take(artifact{id, piece}, id != "" && i > 0)
			}
			if n := len(all.text()); n < pieces {
				t.Errorf("%s: %d bytes", name, n)
			}
		})
		if allocs > pieces/5 {
			t.Errorf("%s: %v allocations for %d pieces", name, allocs, pieces)
		}
	}
}
