package pump

import (
	"cmp"
	"fmt"
	"slices"

	"weir/events"
)

// deadlines holds the next deadlines of the flows that have one, the earliest on
// top and, among those of the same time, the smaller key, so that the order in
// which they fire depends on nothing but the log.
//
// Of many flows only the next deadlines are held, up to a last one. Those behind it are with
// the flows in memory, or in the index of the store, and are fetched when their time comes.
type deadlines struct {
	heap  []*deadline
	byKey map[string]*deadline
	most  int      // are held; 0 for all that there are
	last  deadline // everything up to here is held
	whole bool     // and nothing is behind it

	// It is made once, when the first of them is asked for, and nil before.
	older map[string]events.Stamp // those of records of an older format, which do not say them
}

// deadline is the next deadline of one flow or agent.
type deadline struct {
	due   events.Stamp
	key   string
	place int // in the heap
}

// before reports whether x comes before the deadline of a time and key.
func (x *deadline) before(due events.Stamp, key string) bool {
	// The key decides between equal times, so that the order is one of the log and not of the
	// heap.
	return x.due < due || x.due == due && x.key < key
}

// A deadline takes some 130 bytes: one for each KiB is an eighth of a budget.
const (
	bytesPerDeadline = 1 << 10
	// leastDeadlines keeps a small budget from fetching from the store for every few that fire.
	leastDeadlines = 64
)

// newDeadlines returns deadlines within a budget of memory; 0 for any number.
func newDeadlines(memory int64) deadlines {
	d := deadlines{byKey: make(map[string]*deadline), whole: true}
	if memory > 0 {
		d.most = max(leastDeadlines, int(memory/bytesPerDeadline))
	}
	return d
}

// of returns the deadline of key, if it is held; 0 for none.
func (d *deadlines) of(key string) events.Stamp {
	if x := d.byKey[key]; x != nil {
		return x.due
	}
	return 0
}

// short reports whether deadlines up to a time may be missing.
// They may when all up to last were fired or are later than that time.
func (d *deadlines) short(until events.Stamp) bool {
	return !d.whole && d.last.due <= until && (len(d.heap) == 0 || d.heap[0].due > until)
}

// shorten leaves the earlier half when there are too many.
func (d *deadlines) shorten() {
	if d.most == 0 || len(d.heap) <= d.most {
		return
	}
	// Half, so that the next set does not sort again. The later half is in the store, or with
	// the flows in memory that are not saved yet, and moreDeadlines looks at both.
	slices.SortFunc(d.heap, func(a, b *deadline) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.key, b.key)) })
	half := len(d.heap) / 2
	for _, x := range d.heap[half:] {
		delete(d.byKey, x.key)
	}
	clear(d.heap[half:])
	d.heap = d.heap[:half] // sorted, so it is a heap
	for i, x := range d.heap {
		x.place = i
	}
	d.last, d.whole = *d.heap[half-1], false
}

// moreDeadlines fetches those that come next.
// It goes on behind the last one held: first from the index of the store, then from memory,
// whose flows may have deadlines that no checkpoint has written yet.
func (m *memory) moreDeadlines() error {
	d := &m.deadlines
	from, n := d.last, 0
	d.whole = true
	err := m.o.Store.Due(m.o.Partition, m.subject, from.due, from.key, func(due events.Stamp, key string) bool {
		if n == d.most/2 {
			d.whole = false
			return false
		}
		// Also where the flow is in memory: its own deadline is set below if it is not behind
		// last, and by a later look if it is.
		d.last = deadline{due: due, key: key}
		if m.cache.byKey[key] == nil { // or its own is newer
			d.set(key, due)
			n++
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read the deadlines: %w", err)
	}
	for key, r := range m.cache.byKey {
		if r.due != 0 && from.before(r.due, key) {
			d.set(key, r.due)
		}
	}
	return nil
}

// dueOf returns the deadline of a flow whose record does not say it.
// The index cannot be asked by key, so all of it that is not held is read once.
func (m *memory) dueOf(key string) (events.Stamp, error) {
	d := &m.deadlines
	if due := d.of(key); due != 0 || d.whole {
		return due, nil
	}
	if d.older == nil {
		d.older = make(map[string]events.Stamp)
		err := m.o.Store.Due(m.o.Partition, m.subject, d.last.due, d.last.key, func(due events.Stamp, key string) bool {
			d.older[key] = due
			return true
		})
		if err != nil {
			return 0, fmt.Errorf("read the deadlines: %w", err)
		}
	}
	return d.older[key], nil
}

// first returns the earliest deadline.
func (d *deadlines) first() (key string, due events.Stamp, ok bool) {
	if len(d.heap) == 0 {
		return "", 0, false
	}
	return d.heap[0].key, d.heap[0].due, true
}

// upTo appends to keys the keys of deadlines up to a time, from the subtree of the heap at place. It
// stops at most keys.
func (d *deadlines) upTo(keys []string, until events.Stamp, place, most int) []string {
	if place >= len(d.heap) || d.heap[place].due > until || len(keys) >= most {
		return keys
	}
	keys = d.upTo(append(keys, d.heap[place].key), until, 2*place+1, most)
	return d.upTo(keys, until, 2*place+2, most)
}

// set makes due the deadline of key; 0 takes it away. The key is kept.
func (d *deadlines) set(key string, due events.Stamp) {
	x := d.byKey[key]
	if !d.whole && d.last.before(due, key) {
		due = 0 // it is fetched when its time comes
	}
	switch {
	case x == nil && due == 0:
	case x == nil:
		x = &deadline{due: due, key: key, place: len(d.heap)}
		d.byKey[key] = x
		d.heap = append(d.heap, x)
		// shorten comes after the place in the heap is right, since it sorts and numbers them
		// anew.
		d.up(x.place)
		d.shorten()
	case due == 0:
		delete(d.byKey, key)
		last := len(d.heap) - 1
		place := x.place
		// The last one takes the place, and may belong above it or below.
		d.swap(place, last)
		d.heap[last] = nil
		d.heap = d.heap[:last]
		if place < last {
			d.up(place)
			d.down(place)
		}
	default:
		x.due = due
		d.up(x.place)
		d.down(x.place)
	}
}

func (d *deadlines) less(i, j int) bool {
	return d.heap[i].before(d.heap[j].due, d.heap[j].key)
}

func (d *deadlines) swap(i, j int) {
	h := d.heap
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// up and down keep the earliest on top, and with each deadline its place.
func (d *deadlines) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !d.less(i, parent) {
			return
		}
		d.swap(i, parent)
		i = parent
	}
}

func (d *deadlines) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			return
		}
		if right := child + 1; right < len(d.heap) && d.less(right, child) {
			child = right
		}
		if !d.less(child, i) {
			return
		}
		d.swap(i, child)
		i = child
	}
}
