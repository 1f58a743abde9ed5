package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Stages of an order, as the audit log has them. One that has no answer after it was under
// way when weir ended: what became of it stands in the log of events.
const (
	// Each word stands in files that other programs read.
	Asked    = "asked"    // and is about to be carried out
	Answered = "answered" // with a status
	Refused  = "refused"  // before anything of it was looked at
	Begun    = "begun"    // no order: this is a new file, because the one before was removed
)

// Record is a line of the audit log.
// Texts of the sender are cut at longestText bytes, the end marked by dots. No token ever
// stands in one.
type Record struct {
	Time  time.Time `json:"time"`
	Stage string    `json:"stage"`
	// ID is empty in a refusal, which has no second line.
	ID        string `json:"id,omitempty"` // shared by the request and its answer
	Principal string `json:"principal"`    // "" is an unknown sender
	By        string `json:"by,omitempty"` // in whose name
	Peer      string `json:"peer"`
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	// Kind, Event and Flow are those of the event that an order became, by which it is
	// found in the log; they are empty when the request was refused before there was one.
	// An order to stop all flows has many events and names none.
	Kind   string `json:"kind,omitempty"` // of the event
	Event  string `json:"event,omitempty"`
	Flow   string `json:"flow,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Status is that of HTTP; 0 in a line that is asked, and when the other side went away
	// before it could be answered.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	// LeftOut is how many refusals were left out before this one.
	LeftOut int `json:"left_out,omitempty"`
}

// refusals is how many refusals a second are logged for one principal, or for all unknown senders
// together. Without the limit, rejected requests could fill the disk. The next line that is written
// has the number of refusals left out.
const refusals = 5

// refusedBytes is how many bytes of refusals of one principal a file takes. Names are those of the
// access file, so that bounds the file; what is beyond is counted as left out until Reopen.
const refusedBytes = 1 << 20

// patience is how long a pipe without room is waited for. The order is refused then.
const patience = time.Second

// longestText is how many bytes of a text are written.
// A flow's id or a reason may be far longer, and the event in the log has all of it.
const longestText = 512

// Audit is the file in which orders of persons are written, one JSON object a line, each
// synced before the order is carried out. It may be rotated: rename it and call Reopen.
// Any goroutine may use it; those who write wait for each other's sync.
type Audit struct {
	path string

	mu   sync.Mutex
	file *os.File
	// Seconds are those of the records and not of the wall, so a test needs no clock.
	second  int64          // of the last refusals
	refused map[string]int // by principal, in that second
	// The bytes of refusals in the file by principal, of this process.
	told map[string]int
	// leftOut is how many refusals no line has counted yet.
	leftOut int
	half    bool // there was no room for the rest of a line
}

// OpenAudit opens the file for appending, and makes one when there is none. Half a line at
// its end, of a process that was killed, is ended.
// The file has mode 0600, since it says who orders what. An error ends the start.
func OpenAudit(path string) (*Audit, error) {
	a := &Audit{path: path}
	return a, a.open()
}

// open leaves the file that is in use as it is when there is an error. The caller holds mu,
// or is alone, and closes the file that was open until then.
func (a *Audit) open() error {
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	// Without that newline the first line of this process would be the end of the half one, and
	// readers of lines would lose both.
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			if _, err := f.Write([]byte("\n")); err != nil {
				return errors.Join(fmt.Errorf("audit log: %w", err), f.Close())
			}
		}
	}
	a.file, a.told, a.half = f, make(map[string]int), false
	return nil
}

// Write logs orders and returns when they are on disk. A nil Audit logs nothing. All records of one
// call are written together and synced once. After an error they may be in the file in part, and the
// caller does not carry the orders out. The file then has a line of an order without an answer (see
// Asked).
func (a *Audit) Write(records ...Record) error {
	if a == nil || len(records) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []byte
	// The number of refusals left out belongs to a line that is written. If the write fails, the
	// number is restored below, so that the next line has it.
	before := a.leftOut
	for _, r := range records {
		if r.Stage == Refused && !a.admits(&r) {
			continue
		}
		r.LeftOut, a.leftOut = a.leftOut, 0
		for _, text := range []*string{&r.By, &r.Peer, &r.Method, &r.Path, &r.Kind, &r.Event, &r.Flow, &r.Reason, &r.Detail} {
			if len(*text) > longestText {
				*text = (*text)[:longestText] + "..."
			}
		}
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		line = plain(line)
		if r.Stage == Refused {
			a.told[r.Principal] += len(line) + 1
		}
		out = append(append(out, line...), '\n')
	}
	if len(out) == 0 {
		return nil
	}
	st, err := a.file.Stat()
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	// A person may delete the file to hide an order. The order is written to a new file, which begins
	// with a line about the removal. A file that was only renamed still has a name. It is written
	// until Reopen, as log rotation requires.
	if on, ok := st.Sys().(*syscall.Stat_t); ok && on.Nlink == 0 { // what is written there goes with the process
		begun, err := a.beginAgain(records[0].Time)
		if err != nil {
			return err
		}
		out = slices.Concat(begun, []byte("\n"), out)
	}
	if !st.Mode().IsRegular() {
		_ = a.file.SetWriteDeadline(time.Now().Add(patience)) // a file without deadlines, such as a device, needs none
	}
	if a.half {
		out = append([]byte("\n"), out...)
	}
	n, err := a.file.Write(out)
	a.half = n > 0 && out[n-1] != '\n' || n == 0 && a.half
	if err != nil {
		a.leftOut = max(before, a.leftOut)
		return fmt.Errorf("audit log: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil // a pipe or a terminal is not synced
	}
	if err := a.file.Sync(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// beginAgain opens a new file in the place of one that was removed, and returns its first line.
func (a *Audit) beginAgain(at time.Time) ([]byte, error) {
	old := a.file
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("%w; the one before was removed while it was in use", err)
	}
	_ = old.Close()
	begun, err := json.Marshal(Record{Time: at, Stage: Begun, Detail: "the file before this one was removed while it was in use"})
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return begun, nil
}

// admits reports whether a refusal is written, and counts it if it is not.
// The caller holds mu.
func (a *Audit) admits(r *Record) bool {
	if second := r.Time.Unix(); second != a.second || a.refused == nil {
		a.second, a.refused = second, make(map[string]int)
	}
	if a.refused[r.Principal]++; a.refused[r.Principal] > refusals || a.told[r.Principal] >= refusedBytes {
		a.leftOut++
		return false
	}
	return true
}

// plain writes what is not ASCII as JSON escapes it: a terminal shows the file, too.
// Otherwise a name that was sent could hide or forge lines by the signs that move a cursor.
// The text stays the same JSON. DEL, which JSON lets pass, is escaped as well.
func plain(line []byte) []byte {
	var out bytes.Buffer
	for len(line) > 0 {
		c, n := utf8.DecodeRune(line)
		line = line[n:]
		switch {
		case c < 0x7f:
			out.WriteByte(byte(c))
		case c > 0xffff:
			one, two := utf16.EncodeRune(c)
			fmt.Fprintf(&out, `\u%04x\u%04x`, one, two)
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return out.Bytes()
}

// Reopen opens the path again, after the file was renamed. SIGHUP triggers it after log rotation has
// renamed the file. After an error the old file stays in use, so no order is lost.
func (a *Audit) Reopen() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.file
	if err := a.open(); err != nil {
		return fmt.Errorf("%w; the old file stays in use", err)
	}
	return old.Close()
}

// Close closes the file.
// It is called once, when nothing writes any more.
func (a *Audit) Close() error {
	if a == nil || a.file == nil {
		return nil
	}
	return a.file.Close()
}
