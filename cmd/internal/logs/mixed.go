package logs

import (
	"bufio"
	"bytes"
	"io"
	"slices"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Logs that several programs wrote, or that went through a queue, have their lines out of the order
// of time, and a result may stand before its call. Such lines are put in order before they are
// read, within a window: a file may be larger than memory.

const (
	// mixedLines and mixedBytes bound the lines that are held back to be put in order.
	mixedLines = 1024
	mixedBytes = 16 << 20
	// mixedShare is the share of lines, of which one goes back in time, from which on a log is out of
	// order. Programs that write results of calls side by side go back now and then.
	mixedShare = 8
	// mixedLeast is how many lines have to go back at least.
	mixedLeast = 3
)

// lineTime returns the time that a record states; 0 for none. Of a span its end counts.
func lineTime(line []byte) (at events.Stamp) {
	if bytes.Contains(line, []byte(`"resourceSpans"`)) {
		return spanTime(line)
	}
	c := jsonwalk.New(line)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "timestamp", "time", "ts", "end_time", "ended_at", "created_at":
			if t, ok := c.Stamp(); ok && t > 0 {
				at = t
			}
		case "start_time", "started_at":
			if t, ok := c.Stamp(); ok && at == 0 {
				at = t
			}
		}
	}
	return at
}

// spanTime returns the latest end of the spans of a batch of OTLP.
func spanTime(line []byte) (at events.Stamp) {
	const key = `"endTimeUnixNano":`
	for rest := line; ; {
		_, after, ok := bytes.Cut(rest, []byte(key))
		if !ok {
			return at
		}
		after = bytes.TrimLeft(after, ` "`)
		n := events.Stamp(0)
		for _, d := range after[:min(len(after), 19)] {
			if d < '0' || d > '9' {
				break
			}
			n = n*10 + events.Stamp(d-'0')
		}
		at, rest = max(at, n/1e6), after
	}
}

// orderOf reports whether the lines at the beginning of a log go to and fro in time, and whether
// they go back throughout.
func orderOf(head []byte) (mixed, turned bool) {
	var before events.Stamp
	later, earlier, untimed := 0, 0, 0
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		head = head[:i] // the last line may be cut
	}
	for line := range bytes.Lines(head) {
		at := lineTime(line)
		switch {
		case at == 0:
			untimed++
			continue
		case before == 0, at == before:
		case at > before:
			later++
		default:
			earlier++
		}
		before = at
	}
	switch {
	// Of a document that spans lines, most have no time.
	case earlier < mixedLeast || earlier*mixedShare < earlier+later || untimed > earlier+later:
		return false, false
	case earlier > 4*later:
		return false, true
	}
	return true, false
}

// mixedLine is a line that waits for its place.
type mixedLine struct {
	at   events.Stamp
	from adapter.Position
	text []byte
}

// inTime reads lines of r and gives them in the order of their times. A line without a time stays
// behind the line before it.
func inTime(r io.Reader) *carried {
	whole := &counter{r: r}
	in := bufio.NewReader(whole)
	var held []mixedLine
	size, last := 0, events.Stamp(0)
	var from adapter.Position
	var ended error // why no more can be read
	c := &carried{line: 1}
	c.next = func() ([]byte, int, error) {
		for ended == nil && len(held) < mixedLines && size < mixedBytes {
			from.Line++
			from.Offset = whole.n.Load() - int64(in.Buffered())
			text, err := readLine(in, nil)
			if ended = err; err != nil {
				break
			}
			if text = bytes.TrimSpace(text); len(text) == 0 {
				continue
			}
			if at := lineTime(text); at > 0 {
				last = at
			}
			// Behind those of the same time, which keep their order.
			i := len(held)
			for i > 0 && held[i-1].at > last {
				i--
			}
			held = slices.Insert(held, i, mixedLine{last, from, text})
			size += len(text)
		}
		if len(held) == 0 {
			return nil, 0, ended
		}
		text := held[0].text
		c.moved.give(held[0].from)
		held, size = held[1:], size-len(text)
		return text, 0, nil
	}
	return c
}

// settle puts an input in order whose lines are out of it. The own format keeps the order of a
// live weir, see Reader.place.
func (in *Input) settle(head []byte) (err error) {
	if in.wraps != "" || len(in.carriers) > 0 || in.mixed || in.turned {
		return nil
	}
	in.mixed, in.turned = orderOf(head)
	// Adapters of spans hold them back, and need no more for those that go back throughout.
	in.turned = in.turned && in.Format.Framing == adapter.Lines
	if in.mixed || in.turned {
		return in.carry()
	}
	return nil
}
