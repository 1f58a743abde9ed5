package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"weir/cmd/internal/problem"
	"weir/events"
)

// lineReader cuts a body of events into lines. It holds one line at a time, and of one
// that is too long for an event no more than its beginning.
type lineReader struct {
	// in reads the body, which is charged as it is read; the buffer is not charged beside
	// that.
	in   *bufio.Reader
	long []byte // a line that is longer than the buffer of in

	// The result of next. A caller that keeps a line has to copy it.
	line   []byte // without the space around it; good until the next one
	size   int    // of the line: more than line has when that is only its beginning
	number int    // from 1
	alone  bool   // line is all there is, and was not returned yet
	err    error  // why there are no more lines; nil at the end of the body
}

const (
	// Nearly all events are shorter, and are cut out of the buffer without a copy.
	lineBuffer = 16 << 10
	// maxDocument is how long a single event may be that spans lines, with its spaces.
	maxDocument = 2 * events.MaxEventBytes
)

// newLineReader reads a body. Call begin once, then next until it returns false, then look
// at err.
func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, lineBuffer)}
}

// begin looks at the start of the body. A single event may span lines, if its content
// type does not declare it to be one of many. next reports read errors.
// The content type decides only when it names lines: clients may send lines as
// application/json, or without a type. An array is rejected; the error has the command that
// makes lines of it.
func (l *lineReader) begin(contentType string) error {
	// Editors of Windows put this mark before a text, and no JSON begins with it.
	if bom, _ := l.in.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = l.in.Discard(len(bom)) // they are in the buffer
	}
	head, _ := l.in.Peek(lineBuffer)
	text := bytes.TrimSpace(head)
	if bytes.HasPrefix(text, []byte("[")) {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "this is a JSON array; send one event per line (application/x-ndjson) instead, for example through: jq -c '.[]'"}
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (strings.Contains(media, "ndjson") || strings.Contains(media, "jsonl")) {
		return nil
	}
	// A first line that is JSON by itself is an event, whatever comes after it. One that is
	// not may be the first of an event that is printed over several lines, such as "{".
	first, _, many := bytes.Cut(text, []byte("\n"))
	if len(first) == 0 || json.Valid(first) || !many && len(head) < lineBuffer {
		return nil
	}
	// An error of reading comes again with the next read, since body keeps its error.
	document, _ := io.ReadAll(io.LimitReader(l.in, maxDocument))
	var line bytes.Buffer
	if len(document) < maxDocument && bytes.Contains(bytes.TrimSpace(document), []byte("\n")) && json.Compact(&line, document) == nil {
		l.line, l.size, l.number, l.alone = line.Bytes(), line.Len(), 1, true
		return nil
	}
	// It is no single event. What was read is put before the rest, so that each bad line is
	// refused with its own number.
	l.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(document), l.in), lineBuffer)
	return nil
}

// next goes on to the next line, which may be empty; false when there is none.
// After false, err says whether the body ended or broke off. A line without a newline at
// the end of the body is a line. Of a line that is too long all is read, size says how long
// it is, and line has as much of it as a dead letter and a check of the length need.
func (l *lineReader) next() bool {
	if l.alone {
		l.alone = false
		return true
	}
	// The slice points into the buffer, which the next read overwrites.
	line, err := l.in.ReadSlice('\n')
	l.size = len(line)
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = l.in.ReadSlice('\n')
			l.size += len(line)
			l.long = append(l.long, line[:min(len(line), max(0, events.MaxEventBytes+2-len(l.long)))]...)
		}
		// The buffer of long is kept for the next long line.
		line = l.long
	}
	if err != nil && err != io.EOF {
		l.err = err
		return false
	}
	if l.size == 0 {
		return false
	}
	l.number++
	l.line = line
	// A whole line is returned without the space around it, and its size also excludes that:
	// a carriage return does not count towards the maximum of an event. A line that is cut
	// off is returned unchanged.
	if len(line) == l.size {
		l.line = bytes.TrimSpace(line)
		l.size = len(l.line)
	}
	return true
}
