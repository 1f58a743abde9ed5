package jsonl

import (
	"errors"
	"io"
	"os"
	"strings"
)

// pipe reads from what cannot be asked whether there is anything to read. A goroutine
// opens and reads it, so that the Tail can stop waiting for it.
//
// The goroutine ends when its writers are gone for good, or, after quit is closed, with the
// read that is under way.
type pipe struct {
	// chunks has no room of its own, so that what is not wanted stays in the pipe.
	chunks chan chunk
	quit   chan struct{}
	again  bool // when its writers have left, others may come
}

// chunk is what one read has brought. The error io.EOF says that the writers have left.
type chunk struct {
	data []byte
	err  error
}

// newPipe begins to read a pipe. One with a name of its own is opened again when its
// writers have left; what a shell hands over as a file descriptor ends then.
//
// path may be "-" for the standard input, which is never opened again.
func newPipe(path string, named bool) *pipe {
	p := &pipe{chunks: make(chan chunk), quit: make(chan struct{})}
	// A descriptor that was handed over has no other end once its writer is gone.
	p.again = named && !strings.HasPrefix(path, "/dev/fd/") && !strings.HasPrefix(path, "/proc/")
	go p.run(path)
	return p
}

// run opens, reads to the end, and opens again, until it is stopped.
func (p *pipe) run(path string) {
	for {
		f, err := os.Stdin, error(nil)
		if path != "-" {
			f, err = os.Open(path) // waits for a writer
		}
		if err == nil {
			err = p.copy(f)
			if path != "-" {
				err = errors.Join(err, f.Close())
			}
		}
		// copy returns nil at the end of the writers, which is reported as io.EOF.
		if err == nil {
			err = io.EOF
		}
		// Errors other than the end are final.
		if !p.send(chunk{err: err}) || !p.again || err != io.EOF {
			return
		}
	}
}

// copy sends what it reads until the writers have left, or until it is stopped.
//
// Each chunk has memory of its own, because the Tail takes it at its own time.
func (p *pipe) copy(f *os.File) error {
	for {
		data := make([]byte, readBytes)
		n, err := f.Read(data)
		if n > 0 && !p.send(chunk{data: data[:n]}) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send is false once the reader has stopped.
func (p *pipe) send(c chunk) bool {
	select {
	case p.chunks <- c:
		return true
	case <-p.quit:
		return false
	}
}
