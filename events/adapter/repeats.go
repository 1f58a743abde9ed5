package adapter

import "github.com/cespare/xxhash/v2"

// maxRepeats is how many records are remembered to know them again.
const maxRepeats = 65536

// Repeats knows records again that are delivered twice. It is for formats whose records
// cannot be equal by themselves, since each has an id or a time.
//
// Two records of one hash are taken for one, which 64 bits make as good as impossible.
type Repeats struct{ seen *Recent[struct{}] }

// NewRepeats returns a memory of as many records as the options allow.
func NewRepeats(o Options) *Repeats {
	return &Repeats{NewRecent[struct{}](o.HeldOr(maxRepeats))}
}

// Again reports whether the record came before.
func (r *Repeats) Again(record []byte) bool {
	var key [8]byte
	sum := xxhash.Sum64(record)
	for i := range key {
		key[i] = byte(sum >> (8 * i))
	}
	if _, again := r.seen.Get(string(key[:])); again {
		return true
	}
	r.seen.Put(string(key[:]), struct{}{})
	return false
}
