package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// failing is a store whose backup fails after that many bytes.
type failing struct {
	Store
	after int
}

func (f failing) Backup(_ context.Context, w io.Writer) (int64, error) {
	if f.after > 0 {
		if _, err := w.Write(make([]byte, f.after)); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the disk is gone")
}

// A backup that fails before its first byte is answered by a status. One that fails later breaks off,
// so that no client takes it for a whole one.
func TestBackupFails(t *testing.T) {
	for _, after := range []int{0, 1, 1 << 20} {
		a := &Server{faults: faults{logger: slog.New(slog.DiscardHandler)}}
		b := &backups{failing{after: after}, a.faults.logger}
		server := httptest.NewServer(a.guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := b.serve(w, r); err != nil {
				a.faults.write(w, r, err)
			}
		})))
		resp, err := server.Client().Get(server.URL)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		switch {
		case after > 0 && err == nil:
			t.Errorf("after %d bytes the answer ends as a whole one: HTTP %d", after, resp.StatusCode)
		case after == 0 && (err != nil || resp.StatusCode != http.StatusInternalServerError || resp.Header.Get("Content-Type") == backupType):
			t.Errorf("before its first byte: %v, HTTP %v", err, resp)
		}
		server.Close()
	}
}
