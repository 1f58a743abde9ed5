package group

import "testing"

// TestTreeWords keeps the words that were said last, the first of the log among them.
func TestTreeWords(t *testing.T) {
	w := newTreeWords()
	for i := range int64(treeWordsKept) {
		w.say(place{0, i}, word{next: &TreeAsk{}})
	}
	if v, _ := w.get(place{0, 0}); v.none() {
		t.Error("the word of the first record is gone before the ring is full")
	}
	w.say(place{0, treeWordsKept}, word{next: &TreeAsk{}})
	if v, _ := w.get(place{0, 0}); !v.none() {
		t.Error("the oldest word is kept beyond the ring")
	}
	if v, _ := w.get(place{0, 1}); v.none() {
		t.Error("a word is gone too early")
	}
}
