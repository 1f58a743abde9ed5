// Package spanrow reads spans kept as rows and converts them to OpenTelemetry spans.
package spanrow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/otlp"
)

// Row is one span.
type Row struct {
	Trace, Span, Parent string // ids of any form; Parent may be empty
	Name                string
	Service             string // the program; empty when the row does not have it
	Start, End          time.Time
	Failed              bool
	Message             string            // what went wrong
	Attributes          map[string]string // by the names that package otlp knows
}

// Reader makes events of records that hold rows.
// It wraps the adapter of OTLP spans, which decides what is held back, flushed or emitted late.
type Reader struct {
	adapter.Adapter
	// rows returns the rows of a record. An error applies to the record as a whole.
	rows func(record []byte) ([]Row, error)
}

// New returns an adapter of records that rows takes apart.
func New(o adapter.Options, source string, rows func(record []byte) ([]Row, error)) adapter.Adapter {
	if o.Source == "" {
		o.Source = source
	}
	return &Reader{otlp.Format().New(o), rows}
}

// Decode reads one record.
func (r *Reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// An export may have empty pages, which are no error.
	rows, err := r.rows(record)
	if err != nil || len(rows) == 0 {
		return err
	}
	// The rows are written as JSON and read again: it costs a second pass, and saves a second
	// reading of what attributes mean.
	return r.Adapter.Decode(batch(rows), emit)
}

// At and Oldest are those of what is held back, see adapter.Keeper.
// A Reader always wraps the adapter of package otlp, which is a Keeper.
func (r *Reader) At(place int64) { r.Adapter.(adapter.Keeper).At(place) }

// Oldest returns the place of the first record that is still needed.
func (r *Reader) Oldest() (place int64, ok bool) { return r.Adapter.(adapter.Keeper).Oldest() }

type object = map[string]any

// batch writes rows as an export request. Rows of one program stand together.
// The order of the programs is that of their first rows, since a map has none and the same
// record has to give the same events. Attributes may come in any order.
func batch(rows []Row) []byte {
	byService := map[string][]any{}
	var services []string
	for i := range rows {
		row := &rows[i]
		if !slices.Contains(services, row.Service) {
			services = append(services, row.Service)
		}
		var attributes []any
		for key, value := range row.Attributes {
			attributes = append(attributes, object{"key": key, "value": object{"stringValue": value}})
		}
		// OTLP writes 64-bit numbers as texts.
		span := object{"traceId": id(row.Trace, 32), "spanId": id(row.Span, 16), "name": row.Name, "attributes": attributes,
			"startTimeUnixNano": strconv.FormatInt(row.Start.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(row.End.UnixNano(), 10)}
		if row.Parent != "" {
			span["parentSpanId"] = id(row.Parent, 16)
		}
		if row.Failed {
			// 2 is STATUS_CODE_ERROR.
			span["status"] = object{"code": 2, "message": row.Message}
		}
		byService[row.Service] = append(byService[row.Service], span)
	}
	var resources []any
	for _, service := range services {
		resource := object{"scopeSpans": []any{object{"spans": byService[service]}}}
		if service != "" {
			resource["resource"] = object{"attributes": []any{object{"key": "service.name", "value": object{"stringValue": service}}}}
		}
		resources = append(resources, resource)
	}
	out, _ := json.Marshal(object{"resourceSpans": resources}) // of texts: no error
	return out
}

// id returns s if it is an id of the given number of hex digits, else the beginning of its hash.
// Exports have UUIDs and ids of databases where OTLP has hex. The hash is the same for a span
// and for a reference to it as a parent, so the tree stays whole.
func id(s string, digits int) string {
	s = strings.ToLower(strings.TrimPrefix(s, "0x"))
	// An id of zeros means none in OTLP, and would make all such spans one.
	if _, err := hex.DecodeString(s); err == nil && len(s) == digits && strings.Trim(s, "0") != "" {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:digits]
}

// Text returns what a member says: the text of a string, else its JSON; "" for null.
// Text is for exports that keep JSON now as text and now as an object, by version.
func Text(raw json.RawMessage) string {
	var s string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case raw[0] == '"' && json.Unmarshal(raw, &s) == nil:
		return s
	}
	return string(raw)
}

// Time reads a time as exports write them: RFC 3339, with or without a zone, which is then
// UTC, or milliseconds since 1970. The zero time is what is none.
func Time(raw json.RawMessage) time.Time {
	text := Text(raw)
	// Through microseconds, so that fractions of a millisecond stay.
	if ms, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMicro(int64(ms * 1000)).UTC()
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// Objects returns the objects of a record: it itself, or the elements of one of its members
// that hold them, such as the data of a page.
// An error is a *events.DecodeError. An object without any of the members is one row itself.
func Objects(record []byte, members ...string) ([]map[string]json.RawMessage, error) {
	if err := Check(record); err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(record, &top); err != nil {
		return nil, &events.DecodeError{Code: events.CodeSyntax, Offset: 0, Reason: "it is no JSON object: " + err.Error()}
	}
	for _, name := range members {
		var list []map[string]json.RawMessage
		if json.Unmarshal(top[name], &list) == nil && list != nil {
			return list, nil
		}
	}
	return []map[string]json.RawMessage{top}, nil
}

// Check says where a record is no JSON object, or is deeper than any adapter reads.
// It runs before encoding/json, which would follow any depth.
func Check(record []byte) error {
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		c.Skip()
	}
	c.End()
	return c.Err()
}
