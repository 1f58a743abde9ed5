package logs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"weir/events/adapter"
	"weir/events/envelope/otlpwire"
)

// sizeBytes is how many bytes before a message say how long it is.
const sizeBytes = 4

// maxFrame is the most that a message may take in a file. By default, the Collector makes none that is
// longer.
const maxFrame = 4 * adapter.MaxRecord

// frames reads a file of messages of which each has its length before it, as the Collector's
// file exporter writes them with format: proto or compression: zstd, and gives their JSON, a
// line each.
type frames struct {
	in   *bufio.Reader
	n    int    // messages that were read
	line []byte // the rest of the last one
	room []byte
	text []byte
}

// unframed returns what is in r as text. Protobuf of OpenTelemetry becomes JSON: messages
// with their lengths, and a single one, such as the body of a request; all else is left as it
// is.
func unframed(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	head, _ := in.Peek(sizeBytes + 4) // an input may be shorter
	switch {
	// Nothing else that is read begins with a byte of zeros, or with one.
	case len(head) > sizeBytes && head[0] <= maxFrame>>24 && binary.BigEndian.Uint32(head) > 0:
		return &frames{in: in}, nil
	case len(head) == 0 || head[0] != '\n': // field 1 of a message, or an empty line
		return in, nil
	}
	body, err := io.ReadAll(io.LimitReader(in, adapter.MaxRecord))
	if err != nil {
		return nil, err
	}
	if s := otlpwire.SignalOf(body); s == otlpwire.Spans || s == otlpwire.Logs {
		text, err := otlpwire.AppendJSON(nil, body, s)
		return bytes.NewReader(text), err
	}
	return io.MultiReader(bytes.NewReader(body), in), nil
}

// Read gives the JSON of one message after the other. Batches of metrics give nothing.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.line) == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.line)
	f.line = f.line[n:]
	return n, nil
}

// next makes the line of the next message.
func (f *frames) next() error {
	var size [sizeBytes]byte
	if _, err := io.ReadFull(f.in, size[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return f.broken("the file ends before it")
		}
		return err // the end
	}
	f.n++
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return f.broken(fmt.Sprintf("it is said to have %d bytes, of at most %d", n, maxFrame))
	}
	f.room = append(f.room[:0], make([]byte, n)...)
	if _, err := io.ReadFull(f.in, f.room); err != nil {
		// As of a file that is still written: what came before is read, and the line that is no
		// JSON is reported with its number.
		f.line, f.in = fmt.Appendf(nil, "the file ends within message %d\n", f.n), bufio.NewReader(bytes.NewReader(nil))
		return nil
	}
	message := f.room
	if adapter.Compressed(message) { // each by itself
		var err error
		if f.text, err = adapter.Unpack(f.text[:0], message); err != nil {
			return f.broken(err.Error())
		}
		message = f.text
	}
	if bytes.HasPrefix(message, []byte("{")) {
		f.line = append(bytes.Clone(message), '\n')
		return nil
	}
	switch s := otlpwire.SignalOf(message); s {
	case otlpwire.Spans, otlpwire.Logs:
		text, err := otlpwire.AppendJSON(nil, message, s)
		if err != nil {
			return f.broken(err.Error())
		}
		f.line = append(text, '\n')
	case otlpwire.Unknown:
		return f.broken("it is neither JSON nor a batch of OpenTelemetry in protobuf")
	}
	return nil
}

// broken says which message cannot be read. Where the next one begins is not known then.
func (f *frames) broken(why string) error {
	return fmt.Errorf("message %d of a file of messages with their lengths: %s", max(f.n, 1), why)
}
