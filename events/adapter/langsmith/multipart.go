package langsmith

import (
	"bytes"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// disposition begins the header that names a part.
//
// The header contains the name, as in any form that a browser posts.
const disposition = "Content-Disposition: form-data;"

// maxReady is how many runs of one multipart body are held until its end, and
// maxReadySize how many bytes of them.
//
// Runs wait for the end because their parts may come in any order.
const (
	maxReady     = 256
	maxReadySize = adapter.MaxRecord
)

// part is one part of a multipart body: post.<id>, post.<id>.inputs and so on.
//
// Attachments and feedback have names of their own, and are passed over.
type part struct {
	kind  partKind
	id    string
	field string // empty for the run itself
}

type partKind uint8

const (
	noPart  partKind = iota
	runPart          // of a run
	other            // an attachment or feedback
)

// isJSON is true for what can be the content of a part of a run.
func isJSON(p []byte) bool { return len(p) > 0 && (p[0] == '{' || p[0] == '[' || p[0] == '"') }

// isMultipart is true for lines that are part of a multipart body and no content,
// and for whole bodies.
func isMultipart(p []byte) bool {
	return bytes.HasPrefix(p, []byte("--")) || isHeader(p)
}

// isHeader is true for the headers of a part, all of which begin alike.
func isHeader(p []byte) bool {
	const prefix = "content-"
	return len(p) > len(prefix) && strings.EqualFold(string(p[:len(prefix)]), prefix)
}

// partOf reads the header that names a part.
func partOf(line []byte) (part, bool) {
	if len(line) < len(disposition) || !strings.EqualFold(string(line[:len(disposition)]), disposition) {
		return part{}, false
	}
	_, rest, _ := bytes.Cut(line, []byte(`name="`))
	name, _, found := bytes.Cut(rest, []byte(`"`))
	verb, rest, _ := bytes.Cut(name, []byte("."))
	// The id may stand before a point and the name of the member.
	if !found || string(verb) != "post" && string(verb) != "patch" {
		return part{kind: other}, found
	}
	id, field, _ := bytes.Cut(rest, []byte("."))
	return part{kind: runPart, id: string(id), field: string(field)}, len(id) > 0
}

// line reads one line of a multipart body.
//
// r.part says what the line before has announced.
func (r *reader) line(line []byte, emit func(*events.Event)) error {
	switch {
	case bytes.HasPrefix(line, []byte("--")):
		// A boundary ends a part; one with two dashes behind ends the body.
		r.part = part{}
		if bytes.HasSuffix(line, []byte("--")) {
			return r.finish(emit)
		}
		return nil
	case isHeader(line) && r.part.kind != other:
		// The content of an attachment may look like a header.
		if p, ok := partOf(line); ok {
			r.part = p
		}
		return nil
	case r.part.kind == runPart && isJSON(line):
		err := r.content(line, emit)
		// The content of a part is one line.
		r.part = part{}
		return err
	}
	return nil // of an attachment
}

// content reads the content of a part of a run.
//
// Parts of one run follow each other; another id begins another run.
func (r *reader) content(line []byte, emit func(*events.Event)) error {
	var err error
	if r.open == nil || r.open.partID != r.part.id {
		if r.open != nil {
			r.ready = append(r.ready, r.open)
		}
		if r.open == nil && len(r.ready) == 0 {
			// A body emits nothing before its end, so all of it is needed after a restart.
			r.began = r.place
		}
		r.open = &run{partID: r.part.id}
		// A body without end is emitted in pieces.
		if len(r.ready) >= maxReady || r.size >= maxReadySize {
			err = r.add(r.ready, emit)
			r.ready, r.size = nil, 0
		}
	}
	r.size += len(line)
	c := jsonwalk.New(line)
	if r.part.field == "" {
		r.open.read(c)
	} else {
		r.open.member(c, r.part.field)
		// What is kept of the line outlives it.
		r.open.own()
	}
	if c.Err() != nil {
		return c.Err()
	}
	return err
}

// finish ends a multipart body.
//
// It is called at its last boundary and at the end of the input.
func (r *reader) finish(emit func(*events.Event)) error {
	if r.open != nil {
		r.ready = append(r.ready, r.open)
		r.open = nil
	}
	runs := r.ready
	// Nothing of the body is left, whatever the runs turn out to be.
	r.ready, r.size, r.part = nil, 0, part{}
	if len(runs) == 0 {
		return nil
	}
	return r.add(runs, emit)
}
