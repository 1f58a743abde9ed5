package forwarder

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/cmd/internal/clock"
	"weir/sink/jsonl"
	"weir/state"
)

// memory is a log of verdicts and a cursor that are only remembered.
type memory struct {
	verdicts []state.Entry
	cursor   []byte
	saved    chan struct{} // a value for each cursor
}

func (m *memory) Read(from int64, most int, dst []state.Entry) ([]state.Entry, error) {
	return append(dst, m.verdicts[from:min(int(from)+most, len(m.verdicts))]...), nil
}
func (m *memory) End() int64                          { return int64(len(m.verdicts)) }
func (m *memory) Ready(int64) <-chan struct{}         { return nil }
func (m *memory) Cursor(string) ([]byte, bool, error) { return m.cursor, m.cursor != nil, nil }
func (m *memory) SetCursor(_ string, at []byte) error {
	m.cursor = at
	m.saved <- struct{}{}
	return nil
}

// TestAPipeWithoutAReaderDelaysNoEnd passes verdicts on to a pipe that nothing is read from: when
// weir ends, the forwarder does, and what the pipe has not taken waits for the next start.
func TestAPipeWithoutAReaderDelaysNoEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	file, err := jsonl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	log := &memory{saved: make(chan struct{}, 100)}
	for i := range 1000 {
		log.verdicts = append(log.verdicts, state.Entry{Offset: int64(i), Value: []byte(fmt.Sprint(i, strings.Repeat(" ", 1000)))})
	}
	f := ToFile(path, file)
	f.Log, f.Cursors, f.Clock, f.Logger = log, log, clock.System{}, slog.New(slog.DiscardHandler)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-log.saved // a part was taken, and the pipe is full
	end()
	if err := <-ended; err != context.Canceled {
		t.Errorf("it ended with %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if at := string(log.cursor); at == "0" || at == "1000" {
		t.Errorf("the next start goes on at %s", at)
	}
}
