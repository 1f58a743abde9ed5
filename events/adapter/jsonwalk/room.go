package jsonwalk

import "sync"

// Room is where strings with escapes are written, and used again for the next record. Most texts
// of a log of agents have escapes, so that memory of its own for each of them would be as much as
// the log. It is for one goroutine.
//
//	room := jsonwalk.Borrow()
//	defer room.Return()
//	c := room.New(record)
//
// What cursors in a room return is good until Clear or Return, as what aliases the record is
// good as long as the record is.
type Room struct{ used []byte }

var rooms = sync.Pool{New: func() any { return new(Room) }}

// roomKept is how much of a room is kept for the next record, in bytes.
const roomKept = 1 << 20

// Borrow returns an empty room.
func Borrow() *Room { return rooms.Get().(*Room) }

// Return gives the room to others. Neither it nor its cursors may be used any more.
func (r *Room) Return() {
	r.Clear()
	rooms.Put(r)
}

// Clear gives up all that was written.
func (r *Room) Clear() {
	if cap(r.used) > roomKept {
		r.used = nil
	}
	r.used = r.used[:0]
}

// New returns a cursor at the beginning of text, as New does, that writes into the room.
func (r *Room) New(text []byte) *Cursor { return &Cursor{text: text, room: r} }

// take returns an empty slice with room for n bytes.
func (r *Room) take(n int) []byte {
	at := len(r.used)
	if at+n > cap(r.used) {
		// Earlier content stays in its place, because a caller may still read it.
		r.used, at = make([]byte, 0, max(64<<10, 2*cap(r.used), n)), 0
	}
	r.used = r.used[:at+n]
	return r.used[at : at : at+n]
}
