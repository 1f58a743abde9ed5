package langsmith

import (
	"bytes"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// disposition begins the header that names a part.
const disposition = "Content-Disposition: form-data;"

// maxReady is how many runs of one multipart body are held until its end, and
// maxReadySize how many bytes of them.
const (
	maxReady     = 256
	maxReadySize = adapter.MaxRecord
)

// part is one part of a multipart body: post.<id>, post.<id>.inputs and so on.
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

func isJSON(p []byte) bool { return len(p) > 0 && (p[0] == '{' || p[0] == '[' || p[0] == '"') }

// isMultipart is true for lines that are part of a multipart body and no content,
// and for whole bodies.
func isMultipart(p []byte) bool {
	return bytes.HasPrefix(p, []byte("--")) || isHeader(p)
}

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
	if !found || string(verb) != "post" && string(verb) != "patch" {
		return part{kind: other}, found
	}
	id, field, _ := bytes.Cut(rest, []byte("."))
	return part{kind: runPart, id: string(id), field: string(field)}, len(id) > 0
}

// line reads one line of a multipart body.
func (r *reader) line(line []byte, emit func(*events.Event)) error {
	switch {
	case bytes.HasPrefix(line, []byte("--")):
		r.part = part{}
		if bytes.HasSuffix(line, []byte("--")) {
			return r.finish(emit)
		}
		return nil
	case isHeader(line) && r.part.kind != other:
		if p, ok := partOf(line); ok {
			r.part = p
		}
		return nil
	case r.part.kind == runPart && isJSON(line):
		err := r.content(line, emit)
		r.part = part{}
		return err
	}
	return nil // of an attachment
}

// content reads the content of a part of a run.
func (r *reader) content(line []byte, emit func(*events.Event)) error {
	var err error
	if r.open == nil || r.open.partID != r.part.id {
		if r.open != nil {
			r.ready = append(r.ready, r.open)
		}
		if r.open == nil && len(r.ready) == 0 {
			r.began = r.place
		}
		r.open = &run{partID: r.part.id}
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
		r.open.own()
	}
	if c.Err() != nil {
		return c.Err()
	}
	return err
}

// finish ends a multipart body.
func (r *reader) finish(emit func(*events.Event)) error {
	if r.open != nil {
		r.ready = append(r.ready, r.open)
		r.open = nil
	}
	runs := r.ready
	r.ready, r.size, r.part = nil, 0, part{}
	if len(runs) == 0 {
		return nil
	}
	return r.add(runs, emit)
}
