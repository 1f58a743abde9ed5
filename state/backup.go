package state

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"weir/state/mark"
	"weir/state/wal"
)

// A backup is a header, one frame for each key, and an end: a frame without a key that has the number
// of keys and a checksum of all before it. A copy that was cut off has no end, and is not restored.
const (
	backupMagic  = "weir-backup-1\n"
	backupBuffer = 256 << 10
	mostBackedUp = 64 << 20 // bytes of one key and value; a larger frame is damage
)

var backupSums = crc64.MakeTable(crc64.ECMA)

// ErrNoBackup says that what is to be restored is not a whole backup.
var ErrNoBackup = errors.New("not a whole backup of a state")

// Backup writes all that the store has at one moment, while others read and write. All that was
// acknowledged before the call is in it, also what is written ahead, and nothing is in part: it is
// what a crash at that moment would leave. It returns how many keys it has written.
func (s *Store) Backup(ctx context.Context, w io.Writer) (keys int64, err error) {
	if s.inMemory() {
		return 0, ErrInMemory
	}
	if err := s.writer.flush(); err != nil {
		return 0, fmt.Errorf("back up state: %w", err)
	}
	sum := crc64.New(backupSums)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), backupBuffer)
	_, _ = out.WriteString(backupMagic) // its error comes with the next one
	var head []byte
	err = s.each(nil, func(item *badger.Item) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		keys++
		return item.Value(func(value []byte) error {
			head = appendFrame(head[:0], item.Key(), len(value), item.Version(), item.ExpiresAt())
			_, _ = out.Write(head)
			_, err := out.Write(value)
			return err
		})
	})
	if err == nil {
		_, _ = out.Write(appendFrame(head[:0], nil, 0, uint64(keys), 0))
		err = out.Flush()
	}
	if err == nil {
		_, err = w.Write(binary.BigEndian.AppendUint64(nil, sum.Sum64()))
	}
	if err != nil {
		return keys, fmt.Errorf("back up state: %w", err)
	}
	return keys, nil
}

// appendFrame appends a key, and what else there is to know of it before its value.
func appendFrame(b, key []byte, value int, version, expires uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	b = binary.AppendUvarint(b, version)
	b = binary.AppendUvarint(b, expires)
	return binary.AppendUvarint(b, uint64(value))
}

// Restore makes a state in dir, which must be empty or missing, from a backup, and opens it once to see
// that it is whole. The state appears under its name when all of it is on the disk: a restore that was
// interrupted leaves a folder whose name ends in .restoring, which the next one removes.
func Restore(ctx context.Context, dir string, r io.Reader, o Options) (keys int64, err error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return 0, fmt.Errorf("restore state: %s is not empty; name a new folder", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("restore state: %w", err)
	}
	part := dir + ".restoring"
	if err := os.RemoveAll(part); err != nil {
		return 0, fmt.Errorf("restore state: %w", err)
	}
	if keys, err = restore(ctx, part, r, o); err != nil {
		return keys, errors.Join(fmt.Errorf("restore state: %w", err), os.RemoveAll(part))
	}
	if err = os.Rename(part, dir); err == nil {
		err = wal.SyncDirectory(filepath.Dir(dir))
	}
	if err != nil {
		return keys, fmt.Errorf("restore state: %w", err)
	}
	return keys, nil
}

// restore loads a backup into a folder, and opens it.
func restore(ctx context.Context, dir string, r io.Reader, o Options) (keys int64, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return 0, err
	}
	d, err := openDirectory(dir, o.LockWait, o.Logger)
	if err != nil {
		return 0, err
	}
	db, err := openBadger(o.badger(d.path))
	if err != nil {
		return 0, errors.Join(err, d.close())
	}
	keys, last, err := loadBackup(ctx, db, r)
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close(), d.close()); err != nil {
		return keys, err
	}
	// As of a state that was synced up to there: an end that is lost later does not go unseen.
	m, _, err := mark.Open(filepath.Join(dir, markFile))
	if err != nil {
		return keys, err
	}
	if err := errors.Join(m.Set(mark.Range{From: 1, To: last + 1}), m.Close()); err != nil {
		return keys, err
	}
	s, err := Open(dir, o)
	if err != nil {
		return keys, err
	}
	return keys, s.Close()
}

// loadBackup puts all keys of a backup into an empty database, under the versions that they had, by
// which the chain sees that none is missing. last is the newest version.
func loadBackup(ctx context.Context, db *badger.DB, r io.Reader) (keys int64, last uint64, err error) {
	loader := db.NewKVLoader(16)
	keys, err = readBackup(ctx, r, func(kv *pb.KV) error {
		last = max(last, kv.Version)
		return loader.Set(kv)
	})
	// What is being written is waited for before the database is closed.
	if finished := loader.Finish(); err == nil {
		err = finished
	}
	return keys, last, err
}

// CheckBackup reads a backup to its end and returns how many keys it has. One that is cut off or
// changed is ErrNoBackup.
func CheckBackup(ctx context.Context, r io.Reader) (keys int64, err error) {
	return readBackup(ctx, r, func(*pb.KV) error { return nil })
}

// readBackup calls set for each key of a backup.
func readBackup(ctx context.Context, r io.Reader, set func(*pb.KV) error) (keys int64, err error) {
	in := &summed{in: bufio.NewReaderSize(r, backupBuffer), sum: crc64.New(backupSums)}
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != backupMagic {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrNoBackup)
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return keys, err
		}
		kv, err := in.frame()
		if err != nil {
			return keys, fmt.Errorf("%w: it breaks off after %d keys: %w", ErrNoBackup, keys, err)
		}
		if len(kv.Key) == 0 {
			if kv.Version != uint64(keys) {
				return keys, fmt.Errorf("%w: it has %d keys and names %d", ErrNoBackup, keys, kv.Version)
			}
			break
		}
		keys++
		if err := set(kv); err != nil {
			return keys, err
		}
	}
	want, got := in.sum.Sum64(), make([]byte, 8)
	if _, err := io.ReadFull(in.in, got); err != nil || binary.BigEndian.Uint64(got) != want {
		return keys, fmt.Errorf("%w: its checksum is wrong", ErrNoBackup)
	}
	return keys, nil
}

// summed reads a backup and sums it up.
type summed struct {
	in  *bufio.Reader
	sum hash.Hash64
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	_, _ = s.sum.Write(b[:n])
	return n, err
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err == nil {
		_, _ = s.sum.Write([]byte{b})
	}
	return b, err
}

// frame reads one key with what belongs to it; the end has no key.
func (s *summed) frame() (*pb.KV, error) {
	kv := new(pb.KV)
	var err error
	if kv.Key, err = s.bytes(); err != nil {
		return nil, err
	}
	if kv.Version, err = binary.ReadUvarint(s); err != nil {
		return nil, err
	}
	if kv.ExpiresAt, err = binary.ReadUvarint(s); err != nil {
		return nil, err
	}
	kv.Value, err = s.bytes()
	return kv, err
}

// bytes reads a length and that many bytes.
func (s *summed) bytes() ([]byte, error) {
	n, err := binary.ReadUvarint(s)
	if err != nil {
		return nil, err
	}
	if n > mostBackedUp {
		return nil, fmt.Errorf("a length of %d bytes", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s, b)
	return b, err
}
