package api

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/cmd/internal/approvals"
)

// A link is a secret until it is used. A request by it that fails may be sent again, so weir's log, which
// many may read, does not have the token.
func TestFaultsHideTokens(t *testing.T) {
	for name, serve := range map[string]func() error{
		"an error": func() error { return errors.New("the disk is gone") },
		"a panic":  func() error { panic("a fault") },
	} {
		var logged bytes.Buffer
		a := &Server{faults: faults{logger: slog.New(slog.NewTextHandler(&logged, nil))}}
		mux := http.NewServeMux()
		for _, path := range []string{approvals.Path + "/{token}", linksPath + "/{token}", "/v1/flows/{id}/stop"} {
			mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { a.faults.write(w, r, serve()) })
		}
		handler := a.guarded(jsonErrors(mux, &a.faults))
		for path, want := range map[string]string{approvals.Path + "/c2VjcmV0": approvals.Path + "/{token}", linksPath + "/c2VjcmV0": linksPath + "/{token}", "/v1/flows/a/stop": "/v1/flows/a/stop"} {
			logged.Reset()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, http.NoBody))
			if text := logged.String(); w.Code != http.StatusInternalServerError || strings.Contains(text, "c2VjcmV0") || !strings.Contains(text, want) {
				t.Errorf("%s of %s: HTTP %d, the log has %s", name, path, w.Code, text)
			}
		}
	}
}
