package weirtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports lie below those that systems give to outgoing connections, so that a port is still free when
// a process that was killed comes back to it.
const lowest, highest = 20_000, 30_000

// taken keeps open the lock files of the ports that this process has reserved.
var taken struct {
	sync.Mutex
	files []*os.File
}

// Ports returns the first of n free ports in a row on 127.0.0.1. They stay reserved for this process until it
// ends: other test programs that call Ports get others.
func Ports(n int) (int, error) {
	taken.Lock()
	defer taken.Unlock()
	for range 1000 {
		first := lowest + rand.IntN(highest-lowest-n)
		if files := reserve(first, n); files != nil {
			taken.files = append(taken.files, files...)
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d", n, lowest, highest)
}

// Address returns a free address on 127.0.0.1, reserved as Ports does it.
func Address(t testing.TB) string { return net.JoinHostPort("127.0.0.1", Port(t)) }

// Port returns the port of an Address.
func Port(t testing.TB) string {
	t.Helper()
	port, err := Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// reserve returns the locked files of n ports in a row, or nil if one of them is in use.
func reserve(first, n int) (files []*os.File) {
	for port := first; port < first+n; port++ {
		file := lockPort(port)
		if file == nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil
		}
		files = append(files, file)
	}
	return files
}

func lockPort(port int) *os.File {
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("weirtest-ports-%d", os.Getuid()))
	if os.MkdirAll(folder, 0o700) != nil {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		_ = l.Close()
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = file.Close()
		return nil
	}
	return file
}
