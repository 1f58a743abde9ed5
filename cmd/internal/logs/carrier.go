package logs

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// carrier is what a program that collects logs has put around each record: text before it on
// its line (Kubernetes, systemd, docker compose), a member of a JSON object (Docker, Fluent
// Bit, Elasticsearch, Splunk, Loki, CloudWatch) or a column of a table.
//
// None of these programs is known by its name: a carrier is where records of a known format are
// found, see findCarrier.
type carrier interface {
	// says completes "reading a.log as otlp ..." for people.
	says() string
	// text makes it carry texts of any kind, for formats that are no JSON.
	text()
	// open returns a function that gives the records that r carries, each with the line that it
	// stands on in r; 0 where that is not known. A nil record stands for text without one.
	open(r io.Reader) func() (record []byte, line int, err error)
}

// carried reads what a carrier carries as lines. A record stands on the line on which it stood,
// as far as there is one, so that a fault is named by its place in the file.
type carried struct {
	next   func() ([]byte, int, error)
	left   []byte
	line   int   // that is written next
	beside int64 // how many texts held no record
	moved  moved // of lines in another order than that of the file
}

// newCarried unwraps r.
func newCarried(c carrier, r io.Reader) *carried { return &carried{next: c.open(r), line: 1} }

// maxTurned is how much can be turned around: what collectors give at once is far less.
const maxTurned = 64 << 20

// turned reads all lines of r and gives the last one first, as collectors give the newest first.
func turned(r io.Reader) *carried {
	lines, line := []byte(nil), 0
	c := &carried{line: 1}
	c.next = func() ([]byte, int, error) {
		if lines == nil {
			all, err := io.ReadAll(io.LimitReader(r, maxTurned+1))
			if err == nil && len(all) > maxTurned {
				err = fmt.Errorf("its newest records stand first, and they are more than %d MiB: sort it by time", maxTurned>>20)
			}
			if err != nil {
				return nil, 0, err
			}
			lines, line = all, 1+bytes.Count(all, []byte("\n"))
		}
		ends := len(lines)
		lines = bytes.TrimRight(lines, "\n")
		if line -= ends - len(lines); len(lines) == 0 {
			return nil, 0, io.EOF
		}
		at := bytes.LastIndexByte(lines, '\n') + 1
		record := lines[at:]
		lines = lines[:at]
		c.moved.give(adapter.Position{Line: line, Offset: int64(at)})
		return record, 0, nil
	}
	return c
}

// Read gives the next bytes of the lines.
func (c *carried) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		record, line, err := c.next()
		if err != nil {
			return 0, err
		}
		if record == nil {
			c.beside++
			continue
		}
		c.left = c.left[:0]
		for ; c.line < line; c.line++ {
			c.left = append(c.left, '\n')
		}
		// A record that spans lines, as one that is printed for people, would be several.
		c.left = append(append(c.left, bytes.ReplaceAll(record, []byte("\n"), []byte(" "))...), '\n')
		c.line++
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// behindText carries a record on a line, behind text. Lines of Kubernetes' container runtimes
// say whether they are a piece of a longer one, and of which stream.
type behindText struct {
	plain bool // the format that was found is no JSON
}

func (t *behindText) text() { t.plain = true }

func (*behindText) says() string { return "behind other text on each line" }

// criLine is a line as container runtimes write it: time, stream, tags of which the first says
// whether it is partial or full, and the text.
var criLine = regexp.MustCompile(`^\S+ (stdout|stderr) ([FP])(?::\S*)? `)

func (t *behindText) open(r io.Reader) func() ([]byte, int, error) {
	in, n := bufio.NewReaderSize(r, 64<<10), 0
	var joined pieces
	var room []byte
	return func() (_ []byte, _ int, err error) {
		for {
			if room, err = readLine(in, room[:0]); err != nil {
				return nil, 0, err
			}
			n++
			line, plain := room, false
			if m := criLine.FindSubmatchIndex(line); m != nil {
				whole := false
				if line, whole = joined.add(string(line[m[2]:m[3]]), line[m[1]:], line[m[4]] == 'F'); !whole {
					continue
				}
				plain = t.plain
			}
			switch {
			case len(line) == 0:
			case plain:
				return line, n, nil
			default:
				return jsonIn(line), n, nil
			}
		}
	}
}

// readLine reads a line without its end. If the line is longer than a record may be, it returns the
// beginning, and the reader of the record reports it.
func readLine(in *bufio.Reader, room []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(room) < adapter.MaxRecord {
			room = append(room, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, errors.Is(err, io.EOF) && len(room) > 0:
			return bytes.TrimRight(room, "\r\n"), nil
		default:
			return nil, err
		}
	}
}

// jsonIn returns the JSON object at the end of a text, nil when there is none. Text before it
// may hold braces, too.
func jsonIn(text []byte) []byte {
	text = bytes.TrimRight(text, " \t\r\n")
	var first []byte
	for i, tries := 0, 0; tries < 8; i, tries = i+1, tries+1 {
		k := bytes.IndexByte(text[i:], '{')
		if k < 0 {
			break
		}
		i += k
		c := jsonwalk.New(text[i:])
		for c.Object(); c.Member(); {
			c.Skip()
		}
		if c.End(); c.Err() == nil {
			return text[i:]
		}
		if first == nil && i+1 < len(text) && text[i+1] == '"' {
			first = text[i:] // a broken record, which is for its reader to report
		}
	}
	return first
}

// pieces joins what comes in pieces, by stream: those of two may come in turn.
type pieces map[string][]byte

// add takes a piece and returns the whole text with its last one.
func (p *pieces) add(stream string, piece []byte, last bool) ([]byte, bool) {
	begun := (*p)[stream]
	switch {
	case last && len(begun) == 0:
		return piece, true
	case last:
		delete(*p, stream)
		return append(begun, piece...), true
	case *p == nil:
		*p = pieces{}
	}
	// A text that is longer than a record may be is reported by the reader of the record. Streams
	// beyond the limit are invented.
	if len(begun) < adapter.MaxRecord && (begun != nil || len(*p) < 16) {
		(*p)[stream] = append(begun, piece...)
	}
	return nil, false
}

// inside carries records at a path of each JSON value.
type inside struct {
	path []step
	// pieces is true where texts end with the end of their line, as Docker writes them: one that
	// does not is a piece of a longer one.
	pieces bool
	// plain is true where the format that was found there is no JSON.
	plain bool
	// object is true where no texts are carried but objects.
	object bool
}

// step is one step of a path: a member of an object, or elements of an array.
type step struct {
	name  string // of a member
	index int    // of an element, from 1 on; every for all; 0 for a member
}

// every is the index that stands for all elements.
const every = -1

func (w *inside) text() { w.plain = true }

func (w *inside) says() string {
	b := new(strings.Builder)
	b.WriteString("in ")
	for _, s := range w.path {
		switch {
		case s.index == every:
			b.WriteString("[]")
		case s.index > 0:
			fmt.Fprintf(b, "[%d]", s.index-1)
		case strings.Trim(s.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "":
			b.WriteString("." + s.name)
		default:
			fmt.Fprintf(b, ".%q", s.name)
		}
	}
	return b.String()
}

// open reads JSON values one by one. One with a list on the path may be as long as a week, so
// that is read as a stream.
func (w *inside) open(r io.Reader) func() ([]byte, int, error) {
	for _, s := range w.path {
		if s.index == every {
			return w.stream(r)
		}
	}
	type found struct {
		record []byte
		line   int
	}
	var joined pieces
	var next []found
	in, err := adapter.NewReader(r)
	if err == nil {
		// What is broken goes on as it is, so that it is reported in its place.
		in.Use(adapter.Lines, func(f adapter.Fault) { next = append(next, found{bytes.Clone(f.Raw), f.Line}) })
	}
	return func() ([]byte, int, error) {
		for len(next) == 0 {
			if err != nil {
				return nil, 0, err
			}
			var record adapter.Record
			if record, err = in.Next(); err == nil {
				w.records(record.Bytes, &joined, func(inner []byte) { next = append(next, found{inner, record.Line}) })
			}
		}
		first := next[0]
		next = next[1:]
		return first.record, first.line, nil
	}
}

// records gives what stands at the path of a record, nil for text that is no record.
func (w *inside) records(record []byte, joined *pieces, give func([]byte)) {
	none := true
	c := jsonwalk.New(record)
	walk(c, w.path, func(raw []byte) {
		none = false
		text := raw
		if raw[0] == '"' {
			text = jsonwalk.New(raw).Text()
		}
		if w.pieces && raw[0] == '"' {
			var stream []byte
			last := len(w.path) - 1
			walk(jsonwalk.New(record), append(w.path[:last:last], step{name: "stream"}), func(raw []byte) { stream = raw })
			var whole bool
			if text, whole = joined.add(string(stream), text, bytes.HasSuffix(text, []byte("\n"))); !whole {
				return
			}
		}
		give(w.record(text))
	})
	switch {
	case !none:
	case c.Err() != nil: // the reader of the input reports it
		give(bytes.Clone(record))
	default:
		give(nil)
	}
}

// record returns the record in a text, nil when there is none.
func (w *inside) record(text []byte) []byte {
	if text = bytes.TrimRight(text, "\r\n"); w.plain && len(text) > 0 {
		return text
	}
	return jsonIn(text)
}

// walk goes to the values at a path and gives their JSON.
func walk(c *jsonwalk.Cursor, path []step, give func(raw []byte)) {
	if len(path) == 0 {
		if raw := c.Raw(); len(raw) > 0 {
			give(raw)
		}
		return
	}
	switch s := path[0]; s.index {
	case 0:
		for c.MaybeObject(); c.Member(); {
			if string(c.Key()) == s.name {
				walk(c, path[1:], give)
			}
		}
	default:
		n := 0
		for c.MaybeArray(); c.Element(); {
			if n++; s.index == every || n == s.index {
				walk(c, path[1:], give)
			}
		}
	}
}

// stream reads the path in values of any length, of which no more is held than one element.
func (w *inside) stream(r io.Reader) func() ([]byte, int, error) {
	ahead := &bounded{r: r}
	e := &elements{of: w, d: json.NewDecoder(ahead)}
	ahead.done = e.d.InputOffset
	return e.next
}

// elements reads the values at a path one after the other, each of which is held alone.
type elements struct {
	of     *inside
	d      *json.Decoder
	levels []level
	joined pieces
}

// level is an open array on the path. It is left when its array ends.
type level struct {
	rest []step // of the path, behind the array
	out  int    // brackets to close behind it, to the array around it
}

// next returns the next record.
func (e *elements) next() (record []byte, line int, err error) {
	for {
		if len(e.levels) == 0 {
			if err := e.enter(e.of.path); err != nil {
				return nil, 0, err // the end, between two values
			}
			continue
		}
		top := e.levels[len(e.levels)-1]
		if !e.d.More() {
			e.levels = e.levels[:len(e.levels)-1]
			if err := leave(e.d, top.out+1); err != nil {
				return nil, 0, unexpected(err)
			}
			continue
		}
		// A further list is entered, all else is small enough to be read at once.
		if lists(top.rest) {
			if err := e.enter(top.rest); err != nil {
				return nil, 0, unexpected(err)
			}
			continue
		}
		record, got, err := e.element(top.rest)
		if err != nil || got {
			return record, 0, err
		}
	}
}

// element reads one element; rest is the path within it.
func (e *elements) element(rest []step) (record []byte, got bool, err error) {
	var element json.RawMessage
	if err := e.d.Decode(&element); err != nil {
		return nil, false, unexpected(err)
	}
	tail := &inside{path: rest, pieces: e.of.pieces && len(rest) > 0, plain: e.of.plain}
	tail.records(element, &e.joined, func(inner []byte) { record, got = inner, true })
	return record, got, nil
}

// enter goes along the path to the first list of which all elements count. A value that holds none is left.
func (e *elements) enter(path []step) error {
	for depth := 0; len(path) > 0; depth++ {
		opening, err := e.d.Token()
		if err != nil {
			return err
		}
		switch {
		case path[0].index == every && opening == json.Delim('['):
			e.levels = append(e.levels, level{path[1:], depth})
			return nil
		case len(e.levels) == 0 && opening == json.Delim('['): // a list of values
			e.levels = append(e.levels, level{path, depth})
			return nil
		case path[0].index == 0 && opening == json.Delim('{'):
			found, err := e.member(path[0].name)
			if err != nil {
				return err
			}
			if path = path[1:]; found {
				continue
			}
			depth++
		default:
			// Another value than the path has here: it is left, with what is open around it.
			if _, opens := opening.(json.Delim); opens {
				depth++
			}
		}
		return leave(e.d, depth)
	}
	return nil
}

// member goes to the value of a member of the object that was opened.
func (e *elements) member(name string) (found bool, err error) {
	for e.d.More() {
		key, err := e.d.Token()
		if err != nil || key == name {
			return err == nil, err
		}
		if err := skipValue(e.d); err != nil {
			return false, err
		}
	}
	return false, nil
}

// lists reports whether all elements of a list are on the path.
func lists(path []step) bool {
	for _, s := range path {
		if s.index == every {
			return true
		}
	}
	return false
}

// leave reads on until n of the surrounding objects and arrays have ended.
func leave(d *json.Decoder, n int) error {
	for n > 0 {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			n++
		case json.Delim('}'), json.Delim(']'):
			n--
		}
	}
	return nil
}

// skipValue reads over a value, of which no more is held than a word of it.
func skipValue(d *json.Decoder) error {
	token, err := d.Token()
	if _, opens := token.(json.Delim); opens && err == nil {
		return leave(d, 1)
	}
	return err
}

// unexpected is the error of an input that ends within a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bounded ends an input when more was read of it than a few records since the last one ended:
// what reads it would hold all of that.
type bounded struct {
	r    io.Reader
	done func() int64 // how far the last value or record went
	n    int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.n-b.done() > 4*adapter.MaxRecord {
		return 0, fmt.Errorf("a value of more than %d bytes", 4*adapter.MaxRecord)
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	return n, err
}

// column carries a record in a column of a table, CSV or with tabs or semicolons.
type column struct {
	comma rune
	at    int
	name  string
	plain bool
}

func (t *column) text() { t.plain = true }

func (t *column) says() string { return fmt.Sprintf("in the column %q", t.name) }

func (t *column) open(r io.Reader) func() ([]byte, int, error) {
	in, _, next := rowsOf(r, t.comma)
	w := &inside{plain: t.plain}
	return func() ([]byte, int, error) {
		row, err := next()
		if err != nil {
			return nil, 0, err
		}
		if t.at >= len(row) {
			return nil, 0, nil
		}
		line, _ := in.FieldPos(t.at)
		return w.record([]byte(row[t.at])), line, nil
	}
}

// tableRow carries a record in each row of a table: an object of texts, by the names of the columns.
type tableRow struct{ comma rune }

func (*tableRow) text() {}

func (*tableRow) says() string { return "in rows of a table" }

func (t *tableRow) open(r io.Reader) func() ([]byte, int, error) {
	in, header, next := rowsOf(r, t.comma)
	names := make([][]byte, len(header))
	for i, name := range header {
		names[i], _ = json.Marshal(strings.TrimPrefix(name, "\ufeff")) // of a text: no error
	}
	return func() ([]byte, int, error) {
		row, err := next()
		if err != nil {
			return nil, 0, err
		}
		line, _ := in.FieldPos(0)
		record := []byte("{")
		for i, field := range row[:min(len(row), len(names))] {
			if field == "" { // which says nothing
				continue
			}
			if len(record) > 1 {
				record = append(record, ',')
			}
			text, _ := json.Marshal(field)
			record = append(append(append(record, names[i]...), ':'), text...)
		}
		return append(record, '}'), line, nil
	}
}

// rowsOf begins a table: its header, good until the first row is read, and what reads the next row. An
// error of the header is that of every row.
func rowsOf(r io.Reader, comma rune) (in *csv.Reader, header []string, next func() ([]string, error)) {
	ahead := &bounded{r: r}
	in = table(ahead, comma)
	ahead.done = in.InputOffset
	header, err := in.Read()
	return in, header, func() ([]string, error) {
		if err != nil {
			return nil, err
		}
		return in.Read()
	}
}

// table reads rows, however they quote.
func table(r io.Reader, comma rune) *csv.Reader {
	in := csv.NewReader(r)
	in.Comma, in.LazyQuotes, in.FieldsPerRecord, in.ReuseRecord = comma, true, -1, true
	return in
}
