package api

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"weir/cmd/internal/intake"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/adapter"
	"weir/events/envelope/otlpwire"
)

// receivers takes what programs send in other formats than weir's.
type receivers struct {
	reading Intake // set by Serve
	logger  *slog.Logger
}

// routes are those that programs send what they have anyway: OpenTelemetry SDKs
// and Collectors their spans and logs (OTLP/HTTP), LangSmith's clients their runs.
// The paths are those that the clients append to an address that they are given, so nothing
// but the address has to be set in them.
func (t *receivers) routes() []route {
	return []route{
		{"POST", "/v1/traces", sender, t.otlp(otlpwire.Spans, "otlp")},
		{"POST", "/v1/logs", sender, t.otlp(otlpwire.Logs, "otlplogs")},
		{"GET", "/info", informed, t.serveLangSmithInfo},
		{"POST", "/runs/batch", sender, t.serveRuns},
		{"POST", "/runs/multipart", sender, t.serveRuns},
	}
}

// otlp serves one signal of OTLP/HTTP.
// Protobuf is converted to JSON and then read by the adapter of that name, so that there is
// one reader for both. The response is sent when the records are safe (see
// intake.Receiver.Take). Dropped spans are reported as a partial success, which senders do
// not send again.
func (t *receivers) otlp(signal otlpwire.Signal, format string) func(http.ResponseWriter, *http.Request) error {
	take := func(w http.ResponseWriter, r *http.Request) error {
		isProto, err := isProtobuf(r)
		if err != nil {
			return err
		}
		body, err := readBody(w, r, adapter.MaxRecord)
		if err != nil {
			return err
		}
		if isProto {
			if len(body) == 0 { // an empty message
				return answerOTLP(w, isProto, nil)
			}
			if s := otlpwire.SignalOf(body); s != signal && s != otlpwire.Empty {
				return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("the body is no batch of %v in protobuf; it looks like %v", signal, s)}
			}
			// JSON of a batch is longer than its protobuf; what it will take is charged
			// before it is made. Small fields may take more than three times their room,
			// which is not charged; AppendJSON ends at the length of a record.
			room := min(3*len(body), adapter.MaxRecord)
			if err := holdOf(r).Grow(int64(room)); err != nil {
				return err
			}
			if body, err = otlpwire.AppendJSON(make([]byte, 0, room), body, signal); err != nil {
				return err
			}
		}
		visitOf(r.Context()).cost.Add(int64(len(body) / chargedBytes))
		err = t.reading.Receiver().Take(r.Context(), format, body)
		// Part of the batch was taken in and part refused, so neither a plain good answer
		// nor an error.
		if part, ok := errors.AsType[*adapter.PartError](err); ok {
			return answerOTLP(w, isProto, part)
		}
		if err != nil {
			return err
		}
		return answerOTLP(w, isProto, nil)
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := take(w, r); err != nil {
			t.refuseOTLP(w, r, err)
		}
		return nil
	}
}

// chargedBytes of spans and runs count as one event if their sender has a rate: their number
// of events is known only later.
const chargedBytes = 1 << 10

// isProtobuf distinguishes the two encodings of OTLP/HTTP.
// The error is 415; OTLP names these two and no other.
func isProtobuf(r *http.Request) (bool, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && media == "application/x-protobuf":
		return true, nil
	case err == nil && media == "application/json":
		return false, nil
	}
	return false, &problem.Error{Status: http.StatusUnsupportedMediaType,
		Detail: fmt.Sprintf("Content-Type %q; want application/x-protobuf or application/json", r.Header.Get("Content-Type"))}
}

// answerOTLP answers what was taken, and what of it was left out.
// A nil part is the empty message, in either encoding: all was taken.
func answerOTLP(w http.ResponseWriter, isProto bool, part *adapter.PartError) error {
	if isProto {
		var answer []byte
		if part != nil {
			answer = otlpwire.AppendAnswer(nil, part.LeftOut, part.Error())
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer) // an error means that the other side is gone
		return nil
	}
	answer := map[string]any{}
	if part != nil {
		rejected := "rejectedSpans"
		if part.What != "spans" {
			rejected = "rejectedLogRecords"
		}
		answer["partialSuccess"] = map[string]any{rejected: strconv.Itoa(part.LeftOut), "errorMessage": part.Error()}
	}
	writeJSON(w, "application/json", http.StatusOK, answer)
	return nil
}

// refuseOTLP answers with a Status, as senders of OTLP expect it. They send again what
// was refused with 429, 502, 503 and 504, and drop the rest.
// The detail stands in the message of the Status, which SDKs write to their own logs.
func (t *receivers) refuseOTLP(w http.ResponseWriter, r *http.Request, err error) {
	e := explain(err)
	if e == nil {
		return
	}
	if fault, ok := errors.AsType[*events.DecodeError](err); ok && fault.Code == events.CodeTooLong {
		e.Status = http.StatusRequestEntityTooLarge
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status >= http.StatusInternalServerError {
		t.logger.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "status", e.Status, "error", err)
	}
	// Codes of gRPC, which a Status has beside that of HTTP.
	const invalidArgument, resourceExhausted, internal, unavailable = 3, 8, 13, 14
	code := invalidArgument
	switch e.Status {
	case http.StatusTooManyRequests:
		code = resourceExhausted
	case http.StatusServiceUnavailable:
		code = unavailable
	case http.StatusInternalServerError:
		code = internal
	}
	// In the encoding of the request; who sent another one reads JSON most likely.
	if isProto, terr := isProtobuf(r); terr != nil || !isProto {
		writeJSON(w, "application/json", e.Status, map[string]any{"code": code, "message": e.Detail})
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(e.Status)
	_, _ = w.Write(otlpwire.AppendStatus(nil, code, e.Detail))
}

// serveLangSmithInfo returns the settings for LangSmith's clients: multipart, batches that fit
// into one record, and no compression. Clients do not use what is not offered here.
func (t *receivers) serveLangSmithInfo(w http.ResponseWriter, _ *http.Request) error {
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
		// Half of what a body may have leaves room for the rest of a multipart body around a
		// batch.
	}{"weir", batches{true, 100, maxBody / 2, 4, 1000, 4}, struct{}{}})
}

// serveRuns takes runs as LangSmith's clients post them: batches as JSON, and multipart
// bodies. They ask for no more than a good status; parts that cannot be read become
// dead letters.
// Which of the two a body is, the reader finds out from its first bytes; a content type
// that is missing or broken is let pass for that.
func (t *receivers) serveRuns(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, adapter.MaxRecord)
	if err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && media != "application/json" && media != "multipart/form-data" {
		return &problem.Error{Status: http.StatusUnsupportedMediaType, Detail: "want application/json or multipart/form-data"}
	}
	visitOf(r.Context()).cost.Add(int64(len(body) / chargedBytes))
	err = t.reading.Receiver().Take(r.Context(), intake.LangSmith, body)
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
