package filewatch

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Patience is how long Read waits for a file, in real time.
// A local file takes milliseconds. A file on a network disk that is unreachable may never answer.
const Patience = 2 * time.Second

// pending holds the paths that Read has given up and that a goroutine still waits for, so that
// looks at the same file again and again start one goroutine and not one each.
var pending sync.Map

// Read returns the content of a file of at most most bytes. Whatever the path is, it returns: a
// file that does not answer within Patience is an error, and so is a pipe without a writer.
// All files that weir reads again while it runs are read by it, as a read that never ends would
// keep weir from answering and from stopping.
func Read(path string, most int64) ([]byte, error) {
	silent := fmt.Errorf("read %s: no answer within %v; is it a pipe, or on a network disk that is unreachable?", path, Patience)
	if _, waits := pending.Load(path); waits {
		return nil, silent
	}
	type content struct {
		text []byte
		err  error
	}
	read := make(chan content, 1)
	go func() {
		text, err := readNow(path, most)
		read <- content{text, err}
		pending.Delete(path)
	}()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case c := <-read:
		return c.text, c.err
	case <-patience.C:
	}
	pending.Store(path, nil)
	// It may have come meanwhile, and deleted the path before it was stored.
	select {
	case c := <-read:
		pending.Delete(path)
		return c.text, c.err
	default:
		return nil, silent
	}
}

// readNow reads without a bound of time. O_NONBLOCK makes the open of a pipe without a writer
// return at once.
func readNow(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("read %s: it is larger than %d bytes", path, most)
	}
	return text, err
}
