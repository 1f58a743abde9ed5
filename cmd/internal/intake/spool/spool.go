// Package spool keeps acknowledged records on disk until their spans are complete, so that a crash loses none. What is
// not needed any more is removed soon, for it has content.
package spool

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/state/mark"
)

// Options bound a spool. The zero value is good.
type Options struct {
	// Space is given back by whole files, so smaller ones give it back sooner.
	Segment int64 // bytes after which another file is begun; default 4 MiB
	// Most is how many bytes are kept; default 256 MiB. Beyond it the oldest file goes,
	// needed or not: what is lost then is lost only if there is a crash, too.
	Most int64
}

// MaxRecord is the length of the longest record, in bytes.
// A length beyond it, when a file is read, is taken for damage.
const MaxRecord = 64 << 20

// Spool is a log of records in files. It is for one goroutine.
// Records have places, which grow by one and never come again, also after what is in it was
// removed. In a file each record is its length and its checksum, 4 bytes each, least byte
// first, and then its bytes.
type Spool struct {
	dir      string // "" keeps nothing
	o        Options
	segments []segment
	file     *os.File // the last segment; nil before its first record
	// mark is the file beside the folder that says which records have to be there (see
	// decision 67); nil when nothing is kept.
	next int64 // place of the next record
	mark *mark.Mark
}

// segment is one file.
// Its name is the place of its first record, so files of a folder have their order by that.
type segment struct {
	path  string
	first int64 // place of its first record
	size  int64
}

// Other files in the folder are left alone.
const suffix = ".spool"

// Open opens the spool in a folder, which it makes, and calls fn for what is in it. The record is
// valid until fn returns. An empty dir keeps nothing.
//
// Damaged reports records that were acknowledged and cannot be read. A mark beside the folder says
// which records must exist. So neither a missing end nor a missing folder looks like a crash. A crash
// only cuts off the last record, which was not acknowledged. The error is that of a folder that cannot
// be used; the caller may continue after damaged.
func Open(dir string, o Options, fn func(place int64, record []byte)) (s *Spool, damaged error, err error) {
	s = &Spool{dir: dir, o: Options{Segment: cmp.Or(o.Segment, 4<<20), Most: cmp.Or(o.Most, 256<<20)}}
	if dir == "" {
		return s, nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("open spool: %w", err)
	}
	var kept mark.Range
	s.mark, kept, err = mark.Open(filepath.Clean(dir) + markSuffix)
	if s.mark == nil {
		return nil, nil, fmt.Errorf("open spool: %w", err)
	}
	damaged = err
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open spool: %w", err), s.mark.Close())
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		first, perr := strconv.ParseInt(name, 10, 64)
		if !ok || perr != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open spool: %w", err), s.mark.Close())
		}
		s.segments = append(s.segments, segment{filepath.Join(dir, e.Name()), first, info.Size()})
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	// Only what the mark has promised can be missing; places outside of that were never
	// acknowledged or were forgotten before.
	missing := func(from, to int64) {
		if from = max(from, int64(kept.From)); from < to {
			damaged = errors.Join(damaged, fmt.Errorf("%s: %d records that were acknowledged are missing or damaged, the first is %d", dir, to-from, from))
		}
	}
	for i, g := range s.segments {
		// A hole between two files: the one in between is gone.
		missing(s.next, min(g.first, int64(kept.To)))
		s.next = max(s.next, g.first)
		rest, err := g.read(func(record []byte) {
			fn(s.next, record)
			s.next++
		})
		if err != nil {
			return nil, nil, errors.Join(err, s.mark.Close())
		}
		// Bytes behind the last whole record are a write that a crash cut off, unless the
		// mark says that it was acknowledged.
		if rest > 0 && s.next < int64(kept.To) && (i == len(s.segments)-1 || s.next < s.segments[i+1].first) {
			damaged = errors.Join(damaged, fmt.Errorf("%s: the last %d bytes cannot be read", g.path, rest))
		}
	}
	missing(s.next, int64(kept.To))
	// The mark below takes the existing records for all that must exist. A loss is reported once, and
	// its places are not given again.
	s.next = max(s.next, int64(kept.To))
	if err := s.note(); err != nil {
		return nil, nil, errors.Join(err, s.mark.Close())
	}
	return s, damaged, nil
}

// markSuffix is behind the name of the folder in that of its mark.
const markSuffix = ".synced"

// note notes which records have to be there.
func (s *Spool) note() error { return s.mark.Set(rangeOf(s.segments, s.next)) }

// rangeOf is from the first record that is kept to behind the last one; empty when none is.
func rangeOf(segments []segment, next int64) mark.Range {
	r := mark.Range{From: uint64(next), To: uint64(next)}
	if len(segments) > 0 {
		r.From = uint64(segments[0].first)
	}
	return r
}

// Processors have an instruction for this polynomial.
var table = crc32.MakeTable(crc32.Castagnoli)

const headBytes = 8 // length and checksum

// read calls fn for the records of a file and returns how many bytes at its end are none.
// It ends at the first record that is not whole: what comes behind it has no place that
// could be trusted. The record is good until fn returns.
func (g *segment) read(fn func(record []byte)) (rest int64, err error) {
	f, err := os.Open(g.path)
	if err != nil {
		return 0, fmt.Errorf("read spool: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	rest = g.size
	var head [headBytes]byte
	var record []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return rest, ended(err)
		}
		n := int64(binary.LittleEndian.Uint32(head[:4]))
		if n > MaxRecord || n > rest {
			return rest, nil
		}
		record = slices.Grow(record[:0], int(n))[:n]
		if _, err := io.ReadFull(in, record); err != nil {
			return rest, ended(err)
		}
		if crc32.Checksum(record, table) != binary.LittleEndian.Uint32(head[4:]) {
			return rest, nil
		}
		rest -= headBytes + n
		fn(record)
	}
}

// ended is nil when a file is over, also in the middle of a record.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("read spool: %w", err)
}

// Append adds a record and returns its place when it is safe on the disk. After an error the record
// counts as not kept, though it may be there: its sender got an error, and sends it again.
func (s *Spool) Append(record []byte) (place int64, err error) {
	place = s.next
	if s.dir == "" {
		s.next++
		return place, nil
	}
	if len(record) > MaxRecord {
		return 0, fmt.Errorf("spool: a record of %d bytes; want at most %d", len(record), MaxRecord)
	}
	if err := s.present(); err != nil {
		return 0, err
	}
	if s.file == nil || s.segments[len(s.segments)-1].size >= s.o.Segment {
		if err := s.begin(); err != nil {
			return 0, err
		}
	}
	last := &s.segments[len(s.segments)-1]
	b := make([]byte, headBytes, headBytes+len(record))
	binary.LittleEndian.PutUint32(b, uint32(len(record)))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(record, table))
	b = append(b, record...)
	// Head and record are one write. A crash leaves a beginning of it, which the checksum detects.
	if _, err = s.file.WriteAt(b, last.size); err == nil {
		err = s.file.Sync()
	}
	if err != nil { // the next record is written over it
		return 0, fmt.Errorf("write to the spool: %w", err)
	}
	last.size += int64(len(b))
	s.next++
	// The mark comes after the sync, so it never promises what is not there.
	if err := s.note(); err != nil {
		return 0, fmt.Errorf("write to the spool: %w", err)
	}
	return place, nil
}

// present fails if the file that is written to was removed, with all that is in it. Later writes to it
// would be lost with the process. The next record begins another file, and the next open reports the
// loss. It costs two system calls a record (see decision 67).
func (s *Spool) present() error {
	if s.file == nil {
		return nil
	}
	last := &s.segments[len(s.segments)-1]
	open, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("write to the spool: %w", err)
	}
	if there, err := os.Stat(last.path); err == nil && os.SameFile(there, open) {
		return nil
	}
	err = errors.Join(fmt.Errorf("write to the spool: %s was removed while it was in use; the %d records in it are lost if weir is killed before they are needed no more", last.path, s.next-last.first),
		s.file.Close(), os.MkdirAll(s.dir, 0o700))
	s.file = nil
	return err
}

// begin begins another file and lets the oldest go that are beyond what may be kept.
// The folder is synced, too, for a new file in it may be gone after a loss of power
// otherwise.
func (s *Spool) begin() error {
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return fmt.Errorf("write to the spool: %w", err)
		}
		s.file = nil
	}
	var kept int64
	for _, g := range s.segments {
		kept += g.size
	}
	for len(s.segments) > 0 && kept > s.o.Most {
		kept -= s.segments[0].size
		if err := s.drop(); err != nil {
			return err
		}
	}
	path := filepath.Join(s.dir, fmt.Sprintf("%020d%s", s.next, suffix))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of the spool: %w", err)
	}
	if err := syncFolder(s.dir); err != nil {
		return errors.Join(fmt.Errorf("begin a file of the spool: %w", err), f.Close())
	}
	s.file = f
	// A file of that name holds nothing that could be read, or it would have moved next.
	s.segments = slices.DeleteFunc(s.segments, func(g segment) bool { return g.path == path })
	s.segments = append(s.segments, segment{path: path, first: s.next})
	return nil
}

// drop removes the first file.
// The mark lets its records go before the file does. The caller has closed the file if it
// is the one that is written to.
func (s *Spool) drop() error {
	if err := s.mark.Set(rangeOf(s.segments[1:], s.next)); err != nil { // first, or a crash would look like a loss
		return fmt.Errorf("clear the spool: %w", err)
	}
	if err := os.Remove(s.segments[0].path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("clear the spool: %w", err)
	}
	s.segments = s.segments[1:]
	return nil
}

// Next is the place of the record that is appended next.
func (s *Spool) Next() int64 { return s.next }

// Forget removes files whose records are all before a place; that of Next removes all.
// Only whole files go, so records before the place may stay for a while.
func (s *Spool) Forget(before int64) error {
	for len(s.segments) > 0 {
		end := s.next
		if len(s.segments) > 1 {
			end = s.segments[1].first
		}
		if end > before {
			return nil
		}
		// The file that is written to goes as well, and the next record begins another one:
		// content that is not needed is not kept.
		if len(s.segments) == 1 && s.file != nil {
			err := s.file.Close()
			if s.file = nil; err != nil {
				return fmt.Errorf("clear the spool: %w", err)
			}
		}
		if err := s.drop(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the files and keeps what is in them.
// The spool cannot be used afterwards.
func (s *Spool) Close() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	err = errors.Join(err, s.mark.Close())
	s.file, s.mark = nil, nil
	return err
}

// syncFolder makes the names in a folder safe.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
