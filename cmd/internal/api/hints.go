package api

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/events"
)

// hints says once a flow what its checks lack, for each set of fields that is missing. It forgets a
// flow when another one has its place, and says it again then.
type hints struct {
	seed  maphash.Seed
	given [1 << 13]atomic.Uint64
	texts sync.Map // by hintKey: there are few, and to write one takes as long as a tenth of a check
	// limits are those in force.
	limits func() *analyzer.Limits
}

// hintKey is what a text depends on. Limits change seldom.
type hintKey struct {
	lacks   coverage.Lacks
	version string
}

func newHints(limits func() *analyzer.Limits) *hints {
	return &hints{seed: maphash.MakeSeed(), limits: limits}
}

// of returns the hint for a check; "" when it lacks nothing or its flow has had the hint.
func (h *hints) of(ev *events.Event) string {
	lacks := coverage.Missing(ev)
	if lacks == 0 {
		return ""
	}
	key := maphash.String(h.seed, ev.FlowKey()) + uint64(lacks)
	// Nearly all checks end here, with a read that needs the memory for no writer.
	if at := &h.given[key%uint64(len(h.given))]; at.Load() == key || at.Swap(key) == key {
		return ""
	}
	limits := h.limits()
	if limits == nil {
		return ""
	}
	of := hintKey{lacks, limits.Version}
	text, ok := h.texts.Load(of)
	if !ok {
		text, _ = h.texts.LoadOrStore(of, lacks.Hint(limits))
	}
	return text.(string)
}
