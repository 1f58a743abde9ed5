package pump

import "weir/events"

// deadlines holds the next deadline of every flow that has one, the earliest on
// top and, among those of the same time, the smaller key, so that the order in
// which they fire depends on nothing but the log.
type deadlines struct {
	heap  []*deadline
	byKey map[string]*deadline
}

type deadline struct {
	due   events.Stamp
	key   string
	place int // in the heap
}

func newDeadlines() deadlines { return deadlines{byKey: make(map[string]*deadline)} }

// of returns the deadline of key; 0 for none.
func (d *deadlines) of(key string) events.Stamp {
	if x := d.byKey[key]; x != nil {
		return x.due
	}
	return 0
}

// first returns the earliest deadline.
func (d *deadlines) first() (key string, due events.Stamp, ok bool) {
	if len(d.heap) == 0 {
		return "", 0, false
	}
	return d.heap[0].key, d.heap[0].due, true
}

// set makes due the deadline of key; 0 takes it away. The key is kept.
func (d *deadlines) set(key string, due events.Stamp) {
	x := d.byKey[key]
	switch {
	case x == nil && due == 0:
	case x == nil:
		x = &deadline{due: due, key: key, place: len(d.heap)}
		d.byKey[key] = x
		d.heap = append(d.heap, x)
		d.up(x.place)
	case due == 0:
		delete(d.byKey, key)
		last := len(d.heap) - 1
		place := x.place
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
	a, b := d.heap[i], d.heap[j]
	return a.due < b.due || a.due == b.due && a.key < b.key
}

func (d *deadlines) swap(i, j int) {
	h := d.heap
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

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
