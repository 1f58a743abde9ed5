package api

import (
	"io"
	"net/http"
	"time"
)

// BackupPath is where a backup of the state is read.
const BackupPath = "/v1/backup"

// backupType is that of the answer, which state.Restore reads.
const backupType = "application/vnd.weir.backup"

// serveBackup writes all of the state as of one moment, while weir goes on. An answer that breaks off has
// no end, which restore sees; an error after the first byte can be said in no other way.
func (a *Server) serveBackup(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", backupType)
	out := &slowly{w, http.NewResponseController(w)}
	if _, err := a.store.Backup(r.Context(), out); err != nil {
		a.logger.Error("the backup is not whole", "error", err)
		panic(http.ErrAbortHandler) // the client sees a connection that breaks off
	}
	return nil
}

// slowly gives each part of an answer the time that others have for all of theirs.
type slowly struct {
	io.Writer
	control *http.ResponseController
}

func (s *slowly) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines
	return s.Writer.Write(b)
}
