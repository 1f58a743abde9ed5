package api

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"weir/cmd/internal/intake"
	"weir/cmd/internal/problem"
	"weir/events/adapter"
)

// serveLangSmithInfo tells LangSmith's clients how to send: the multipart way, in
// batches that one record may be, and compressed by nothing, for what is not offered
// here they do not use.
func (a *Server) serveLangSmithInfo(w http.ResponseWriter, _ *http.Request) error {
	type batches struct {
		Multipart    bool `json:"use_multipart_endpoint"`
		Runs         int  `json:"size_limit"`
		Bytes        int  `json:"size_limit_bytes"`
		ScaleUpLimit int  `json:"scale_up_nthreads_limit"`
		ScaleUpAt    int  `json:"scale_up_qsize_trigger"`
		ScaleDownAt  int  `json:"scale_down_nempty_trigger"`
	}
	return answer(w, struct {
		Version string  `json:"version"`
		Batches batches `json:"batch_ingest_config"`
		Flags   any     `json:"instance_flags"`
	}{"weir", batches{true, 100, maxBody / 2, 4, 1000, 4}, struct{}{}})
}

// serveRuns takes runs as LangSmith's clients post them: batches as JSON, and multipart
// bodies. They ask for no more than a good status; parts that cannot be read become
// dead letters.
func (a *Server) serveRuns(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, adapter.MaxRecord)
	if err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && media != "application/json" && media != "multipart/form-data" {
		return &problem.Error{Status: http.StatusUnsupportedMediaType, Detail: "want application/json or multipart/form-data"}
	}
	err = a.reading.Receiver().Take(r.Context(), intake.LangSmith, body)
	answer := map[string]any{"message": "runs were taken"}
	if part, ok := errors.AsType[*adapter.PartError](err); ok {
		answer["message"], err = "runs were taken; "+strings.TrimSpace(part.Error()), nil
	}
	if err != nil {
		return err
	}
	writeJSON(w, "application/json", http.StatusAccepted, answer)
	return nil
}
