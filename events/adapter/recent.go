package adapter

import (
	"container/list"
	"iter"
)

// Recent remembers a bounded number of values by key and forgets the one that was
// not asked for the longest. Adapters keep in it what they need to pair records, so
// that no input can make them grow.
//
// It is for one goroutine.
type Recent[V any] struct {
	most    int
	entries map[string]*list.Element
	order   *list.List // of entry[V], the latest in front
}

type entry[V any] struct {
	key   string
	value V
}

// NewRecent returns a memory of at most most values, at least one.
func NewRecent[V any](most int) *Recent[V] {
	return &Recent[V]{most: max(1, most), entries: map[string]*list.Element{}, order: list.New()}
}

// Get returns the value of key, which becomes the latest.
func (r *Recent[V]) Get(key string) (value V, ok bool) {
	e, ok := r.entries[key]
	if !ok {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(entry[V]).value, true
}

// Put remembers value under key. It returns what had to be forgotten for it.
//
// Both results are for callers that have to end what they forget, such as calls that are still
// open.
func (r *Recent[V]) Put(key string, value V) (forgotten V, full bool) {
	if e, ok := r.entries[key]; ok {
		e.Value = entry[V]{key, value}
		r.order.MoveToFront(e)
		return forgotten, false
	}
	r.entries[key] = r.order.PushFront(entry[V]{key, value})
	if len(r.entries) <= r.most {
		return forgotten, false
	}
	_, forgotten, _ = r.PopOldest()
	return forgotten, true
}

// PopOldest forgets the value that was not asked for the longest and returns it.
func (r *Recent[V]) PopOldest() (key string, value V, ok bool) {
	back := r.order.Back()
	if back == nil {
		return "", value, false
	}
	last := r.order.Remove(back).(entry[V])
	delete(r.entries, last.key)
	return last.key, last.value, true
}

// Delete forgets key.
func (r *Recent[V]) Delete(key string) {
	if e, ok := r.entries[key]; ok {
		r.order.Remove(e)
		delete(r.entries, key)
	}
}

// Len is how many values are remembered.
func (r *Recent[V]) Len() int { return len(r.entries) }

// All goes through the values from the oldest to the latest. Only the value that
// was yielded last may be deleted meanwhile.
func (r *Recent[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for e := r.order.Back(); e != nil; {
			before := e.Prev()
			if v := e.Value.(entry[V]); !yield(v.key, v.value) {
				return
			}
			e = before
		}
	}
}
