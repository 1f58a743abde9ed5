package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"weir/cmd/internal/problem"
	"weir/state"
)

// BackupPath is where a backup of the state is read.
const BackupPath = "/v1/backup"

// backupType is that of the answer, which state.Restore reads.
const backupType = "application/vnd.weir.backup"

// backups writes copies of the store.
type backups struct {
	store  Store
	logger *slog.Logger
}

// serve writes all of the state as of one moment, while weir goes on. An answer that breaks off has
// no end, which restore sees; an error after the first byte can be said in no other way.
func (b *backups) serve(w http.ResponseWriter, r *http.Request) error {
	out := &slowly{Writer: w, control: http.NewResponseController(w), begin: func() { w.Header().Set("Content-Type", backupType) }}
	_, err := b.store.Backup(r.Context(), out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, state.ErrInMemory):
		return &problem.Error{Status: http.StatusConflict, Detail: "this weir keeps its state in memory (--in-memory) and has no backup"}
	case out.begin != nil:
		return err
	}
	b.logger.Error("the backup is not whole", "error", err)
	panic(http.ErrAbortHandler) // the client sees a connection that breaks off
}

// slowly gives each part of an answer the time that others have for all of theirs.
type slowly struct {
	io.Writer
	control *http.ResponseController
	begin   func() // is called before the first part; nil afterwards
}

func (s *slowly) Write(b []byte) (int, error) {
	if s.begin != nil {
		s.begin()
		s.begin = nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines
	return s.Writer.Write(b)
}
