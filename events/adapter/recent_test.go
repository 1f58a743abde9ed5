package adapter_test

import (
	"testing"

	"weir/events/adapter"
)

func TestRecent(t *testing.T) {
	r := adapter.NewRecent[int](2)
	r.Put("a", 1)
	r.Put("b", 2)
	if v, ok := r.Get("a"); v != 1 || !ok {
		t.Errorf("a is %d, %v", v, ok)
	}
	if v, full := r.Put("c", 3); v != 2 || !full { // b was not asked for
		t.Errorf("forgot %d, %v", v, full)
	}
	if _, full := r.Put("a", 4); full {
		t.Error("forgot something for a key that was known")
	}
	r.Delete("x")
	keys := ""
	for k := range r.All() {
		keys += k
		r.Delete(k)
	}
	if keys != "ca" || r.Len() != 0 {
		t.Errorf("keys %q, %d left", keys, r.Len())
	}
	if _, _, ok := r.PopOldest(); ok {
		t.Error("something is left")
	}
}
