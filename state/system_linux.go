package state

import (
	"errors"
	"math/bits"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// datasync waits until the data of a write-ahead log is on the disk. Badger writes by a memory map,
// and such data belongs to the file, for every descriptor. Badger's own sync would also sync its
// unused value log, and the metadata each time, which takes twice as long.
//
// Go's scheduler is notified of the call: the disk may stall, and other goroutines must not wait.
func datasync(log *os.File) error {
	for {
		if err := syscall.Fdatasync(int(log.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// The other system calls of a commit bypass Go's scheduler, because they wait for nothing but memory
// of the system (see decision 93).

// place is a path that is looked at again and again, by one goroutine at a time. It must not
// move while it is looked at.
type place struct {
	path string
	name []byte // path as the system reads it
	stat unix.Statx_t
}

func newPlace(path string) *place { return &place{path: path, name: append([]byte(path), 0)} }

// file says which file is there. It does not ask when that was changed, as all other ways to look
// at a file do: from then on the system would note the next change with its exact time, in the
// file's entry on the disk, which each sync would write beside the data and wait for.
func (p *place) file() (fileID, error) {
	at := unix.AT_FDCWD
	_, _, errno := unix.RawSyscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&p.name[0])), 0, unix.STATX_INO, uintptr(unsafe.Pointer(&p.stat)), 0)
	switch errno {
	case 0:
		return fileID{unix.Mkdev(p.stat.Dev_major, p.stat.Dev_minor), p.stat.Ino}, nil
	case unix.ENOSYS, unix.EPERM: // an old kernel, or a container that does not know the call
		return statFile(p.path)
	}
	return fileID{}, &os.PathError{Op: "statx", Path: p.path, Err: errno}
}

// statfs asks how much room there is below path.
func statfs(path string) (st syscall.Statfs_t, err error) {
	if bits.UintSize < 64 { // where the call has another form
		return st, syscall.Statfs(path, &st)
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return st, err
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_STATFS, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&st)), 0); errno != 0 {
		return st, errno
	}
	return st, nil
}

// setAside reserves that many bytes of the disk for a file, from an offset on. No other program can
// take them.
func setAside(file *os.File, from, bytes int64) error {
	return syscall.Fallocate(int(file.Fd()), 0, from, bytes)
}
