package group

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/events/kafka"
)

// owners are the partitions that this process folds or takes over. Any goroutine may use them.
type owners struct {
	clock clock.Clock

	// mu guards what follows, and the generation of each set. It is never held while a broker or
	// another member is asked.
	mu     sync.Mutex
	owned  map[int]*partitionOwner // by output partition, see partitionSet
	taking map[int]taking          // by output partition, see partitionSet

	generations int64 // of both groups
}

// taking is a partition that is being taken over.
type taking struct {
	what  string
	since time.Time
}

// newOwners returns the owners of a process that folds nothing yet.
func newOwners(c clock.Clock) *owners {
	return &owners{clock: c, owned: make(map[int]*partitionOwner), taking: make(map[int]taking)}
}

// all returns the owners that fold at this moment, by output partition.
func (w *owners) all() []*partitionOwner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.owned), func(a, b *partitionOwner) int { return a.output - b.output })
}

// at is the owner of a partition in this process; nil when another process folds it, or none.
func (w *owners) at(l *partitionSet, partition int) *partitionOwner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owned[l.output(partition)]
}

// take begins to take a partition over, in the generation of its group that has assigned it. A
// rebalance counts once, however many partitions it brings.
func (w *owners) take(l *partitionSet, as kafka.Assignment) {
	w.note(l, as.Partition, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.generation != as.Generation {
		l.generation = as.Generation
		w.generations++
	}
}

// note keeps whether a partition is folded, by p, or is being taken over.
func (w *owners) note(l *partitionSet, partition int, p *partitionOwner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	output := l.output(partition)
	if p != nil {
		w.owned[output] = p
		delete(w.taking, output)
		return
	}
	delete(w.owned, output)
	w.taking[output] = taking{l.describe(partition), w.clock.Now()}
}

// giveUp forgets a partition that is not taken over any more.
func (w *owners) giveUp(l *partitionSet, partition int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taking, l.output(partition))
}

// beingTaken names the partitions that are being taken over, which all leaves out.
func (w *owners) beingTaken() (why []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, output := range slices.Sorted(maps.Keys(w.taking)) {
		t := w.taking[output]
		why = append(why, fmt.Sprintf("%s is being taken over since %s", t.what, t.since.UTC().Format(time.RFC3339)))
	}
	return why
}

// rebalances is how many generations of both groups this process has seen.
func (w *owners) rebalances() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generations
}
