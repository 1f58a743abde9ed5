package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
)

// verify looks for damage in the files of a database before Badger opens it, because
// Badger takes damage in ways that lose data or end the process: without a manifest
// it deletes every table; the end of a log is whatever comes before the first entry
// that is not valid; some damage of a table makes one of its goroutines panic. What
// verify finds it leaves as it is.
//
// It returns the size of the memtables that the logs were written with. Badger ends
// the process when it reads a log into a memtable that is too small for it.
//
// The value log is not looked at: nothing is ever written to it, see Options.badger.
func (d *directory) verify(o badger.Options) (memTable int64, err error) {
	tables, logs, err := d.list()
	if err != nil {
		return 0, err
	}
	manifest, err := d.manifest(o, len(tables)+len(logs) > 0)
	if err != nil {
		return 0, err
	}
	// Only tables that belong to the database. Badger itself removes the others at open.
	for id, t := range manifest.Tables {
		if t.Compression != options.None {
			return 0, damaged(d.path, fmt.Errorf("table %d is compressed, which weir never does", id))
		}
		if err := verifyFile(table.NewFilename(id, d.path), verifyTable); err != nil {
			return 0, err
		}
	}
	for _, path := range logs {
		err := verifyFile(path, func(data []byte) error {
			memTable = max(memTable, int64(len(data)/2)) // Badger makes its logs twice the size
			return verifyLog(data)
		})
		if err != nil {
			return 0, err
		}
	}
	return memTable, nil
}

// list returns the paths of all tables and write-ahead logs.
func (d *directory) list() (tables, logs []string, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		switch path := filepath.Join(d.path, e.Name()); filepath.Ext(path) {
		case ".sst":
			tables = append(tables, path)
		case ".mem":
			logs = append(logs, path)
		}
	}
	return tables, logs, err
}

// manifest reads which tables make up the database. Tables that it does not name are
// what a killed process had not finished.
func (d *directory) manifest(o badger.Options, wanted bool) (badger.Manifest, error) {
	f, err := os.Open(filepath.Join(d.path, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		if wanted {
			return badger.Manifest{}, damaged(d.path, errors.New("the manifest is missing, but there is data"))
		}
		return badger.Manifest{}, nil
	}
	if err != nil {
		return badger.Manifest{}, err
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return m, damaged(f.Name(), err)
	}
	return m, nil
}

// verifyFile maps a file into memory and calls fn with it, if it is not empty.
func verifyFile(path string, fn func(data []byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return damaged(path, errors.New("the file is missing"))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var data []byte
	if info.Size() > 0 {
		// Mapped, since a table may be larger than the memory that is free, and is read once.
		data, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map %s: %w", path, err)
		}
		defer syscall.Munmap(data)
	}
	if err := fn(data); err != nil {
		return damaged(path, err)
	}
	return nil
}

// verifyTable checks the index of a table and all of its blocks: what Badger does with
// ChecksumVerificationMode OnTableRead, but with every length checked as well.
//
// A table is its blocks, the index, and a trailer: length of the index, checksum of
// the index, length of the checksum. A block is its entries, their offsets, the number
// of offsets, the checksum of all that, and the length of the checksum.
func verifyTable(data []byte) error {
	body, sum, err := cutChecksum(data)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	body, length, err := cutLength(body)
	if err == nil && length == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	at := len(body) - length
	if err := matches(body[at:], sum); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	// Its checksum was right, so it is what Badger wrote; the offsets in it are checked all the
	// same.
	index := fb.GetRootAsTableIndex(body[at:], 0)
	var block fb.BlockOffset
	for i := range index.OffsetsLength() {
		// In 64 bits, or two large numbers would add up to a small one.
		if !index.Offsets(&block, i) || uint64(block.Offset())+uint64(block.Len()) > uint64(at) {
			return fmt.Errorf("block %d is not in the file", i)
		}
		content, sum, err := cutChecksum(body[block.Offset():][:block.Len()])
		if err == nil {
			err = matches(content, sum)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

// cutLength cuts a length off the end, and checks that so much is before it.
func cutLength(data []byte) (rest []byte, length int, err error) {
	at := len(data) - 4
	if at < 0 {
		return nil, 0, errors.New("it is cut short")
	}
	n := binary.BigEndian.Uint32(data[at:])
	if uint64(n) > uint64(at) {
		return nil, 0, fmt.Errorf("there are %d bytes where %d should be", at, n)
	}
	return data[:at], int(n), nil
}

// cutChecksum cuts a checksum and its length off the end. The checksum is a protocol
// buffer of which weir's tables have one form: CRC-32C, which is the default and thus
// absent, and the sum as field 2.
func cutChecksum(data []byte) (rest []byte, sum uint64, err error) {
	rest, length, err := cutLength(data)
	if err != nil {
		return nil, 0, err
	}
	at := len(rest) - length
	message := rest[at:]
	if len(message) == 0 { // the sum is 0
		return rest[:at], 0, nil
	}
	// The tag of field 2 and then the number, and nothing behind it.
	sum, n := binary.Uvarint(message[1:])
	if message[0] != 2<<3 || n != len(message)-1 {
		return nil, 0, errors.New("there is no checksum")
	}
	return rest[:at], sum, nil
}

// matches says whether data has the checksum.
func matches(data []byte, sum uint64) error {
	if uint64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))) != sum {
		return errors.New("checksum does not match")
	}
	return nil
}

// The format of a write-ahead log: a head, then entries. A transaction is a run of
// entries of one version, the last of which is its end mark.
const (
	// The metas are bits of the first byte of an entry; endMark is the key with which a
	// transaction ends.
	logHeadBytes = 20
	metaTxn      = 1 << 6
	metaEnd      = 1 << 7
	endMark      = "!badger!txn"
)

// verifyLog distinguishes damage to a write-ahead log from the result of a crash. A log may end in the
// middle of a transaction that was not acknowledged. Every transaction is synced before the
// next one begins. A later one after the broken one, or an end outside of an entry, is
// therefore damage to synced data.
func verifyLog(data []byte) error {
	if len(data) < logHeadBytes {
		return errors.New("it is cut short")
	}
	rest := data[logHeadBytes:]
	// open is 0 between two transactions: versions begin at 1.
	var last, open uint64 // versions of the last whole transaction, and of the one begun
	for {
		e, err := cutEntry(rest)
		if err != nil {
			return err
		}
		switch {
		case e.size == 0 && e.end && open == 0: // the end of a log that was read before
			return nil
		case e.size == 0 && e.end:
			return errors.New("it is cut short in a transaction")
		// Nothing valid, and not the end of the file: what follows decides whether a crash
		// explains it.
		case e.size == 0:
			return laterTransaction(rest, last)
		// Only with its end mark a transaction counts.
		case e.meta&metaEnd != 0 && e.version == open:
			last, open = open, 0
		case e.meta&metaTxn != 0 && (open == 0 || e.version == open):
			open = e.version
		default:
			return fmt.Errorf("transaction %d is not whole", open)
		}
		rest = rest[e.size:]
	}
}

// logEntry is an entry as far as it matters here.
type logEntry struct {
	size    int // 0 when there is no valid entry
	end     bool
	meta    byte
	version uint64
}

// cutEntry reads the entry at the beginning of data. Without an entry the size is 0; if none is
// possible there, it returns an error.
func cutEntry(data []byte) (e logEntry, err error) {
	if len(data) == 0 {
		return logEntry{end: true}, nil
	}
	// A log is longer than what is in it until Badger has read it once; so an entry that does
	// not end before the file does was cut.
	cut := errors.New("an entry goes beyond the end of the file")
	if len(data) < 2 {
		return e, cut
	}
	at := 2
	var lengths [3]uint64 // of key and value, and the time of expiry
	for i := range lengths {
		n, size := binary.Uvarint(data[at:])
		if size <= 0 {
			return e, cut
		}
		lengths[i], at = n, at+size
	}
	key, value := lengths[0], lengths[1]
	if key == 0 { // nothing was written here
		return e, nil
	}
	if room := uint64(len(data) - at); key > room || value > room || key+value+crc32.Size > room {
		return e, cut
	}
	end := at + int(key+value)
	sum := binary.BigEndian.Uint32(data[end:])
	// Every key ends with its version, 8 bytes.
	if key < 8 || matches(data[:end], uint64(sum)) != nil {
		return e, nil
	}
	return logEntry{size: end + crc32.Size, meta: data[0], version: versionOf(data[at : at+int(key)])}, nil
}

// versionOf returns the version that ends a key in Badger's files.
func versionOf(key []byte) uint64 {
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-8:])
}

// laterTransaction looks for the end of a transaction after the one that follows last,
// which is the only one that may be there in part.
func laterTransaction(data []byte, last uint64) error {
	const near = 1 << 20 // no log holds more transactions
	for {
		// The mark may stand in a value by chance: the version behind it and once more in its
		// own value must agree, and be one of the next.
		i := bytes.Index(data, []byte(endMark))
		if i < 0 {
			return nil
		}
		data = data[i+len(endMark):]
		if len(data) < 8 {
			return nil
		}
		version := versionOf(data[:8])
		if version > last+1 && version-last < near && bytes.HasPrefix(data[8:], strconv.AppendUint(nil, version, 10)) {
			return fmt.Errorf("transaction %d is damaged, but %d is there", last+1, version)
		}
	}
}
