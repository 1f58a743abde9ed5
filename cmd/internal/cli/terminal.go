package cli

import (
	"os"
	"syscall"
	"unsafe"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, ok := windowOf(f)
	return ok
}

// Width returns the columns of the terminal f, 0 when it is none.
func Width(f *os.File) int {
	w, _ := windowOf(f)
	return int(w.columns)
}

type window struct{ rows, columns, x, y uint16 }

func windowOf(f *os.File) (w window, ok bool) {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&w)))
	return w, errno == 0
}
