package mapped

import (
	"fmt"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// eachName is the word that names a list in a record, and outward what leads out of an element.
const (
	eachName = "each"
	outward  = "^"
)

// level is a list in a record: where it is, and the paths that are read of the record around it.
type level struct {
	list   node // leads to slot 0
	around node
}

// maxLevels is how many lists may be in one another.
const maxLevels = 4

// takeEach takes each=PATH out of the parts of a mapping, because paths depend on it.
func (m *mapping) takeEach(parts []string) (rest []string, err error) {
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if !ok || strings.TrimSpace(name) != eachName {
			rest = append(rest, part)
			continue
		}
		if m.each != nil {
			return nil, fmt.Errorf("%q: each is given twice; write lists in lists as each=.runs[].steps", part)
		}
		for text := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(value), "[]"), "[]") {
			steps, ok := readPath(text)
			if !ok {
				return nil, fmt.Errorf("%q: want the path of a list, such as each=.steps or each=.runs[].steps", part)
			}
			l, slots := level{}, 0
			l.list.put(steps, &slots)
			m.each = append(m.each, l)
		}
		if len(m.each) > maxLevels {
			return nil, fmt.Errorf("%q: lists in one another to a depth of %d; want at most %d", part, len(m.each), maxLevels)
		}
	}
	return rest, nil
}

// above returns the node for paths that lead up records outwards.
func (m *mapping) above(up int) (*node, error) {
	switch {
	case up == 0:
		return &m.root, nil
	case up > len(m.each):
		return nil, fmt.Errorf("there is no record %d outwards: each names %d lists", up, len(m.each))
	}
	return &m.each[len(m.each)-up].around, nil
}

// elements reads the elements of the lists in a record. A fault of one element is the record's, and
// the others are read.
func (r *reader) elements(record []byte, emit func(*events.Event)) (fault error) {
	c := jsonwalk.New(record)
	if c.Peek() != '{' {
		c.Object() // says what is wrong
	} else {
		c.Skip()
	}
	c.End()
	if err := c.Err(); err != nil {
		return err
	}
	r.follows = false
	r.within(record, 0, "", make([][]byte, r.m.slots), func(element []byte, place string, slots [][]byte) {
		clear(r.values[:])
		err := r.m.assign(element, slots, &r.values)
		if err == nil {
			// The place of an element distinguishes equal elements; the surrounding records
			// distinguish those of other records.
			raw := element
			if place != "" {
				raw = fmt.Appendf(nil, "%s\x00%s\x00%s", element, place, r.flowName())
			}
			err = r.one(raw, emit)
		}
		r.follows = true
		if fault == nil {
			fault = err
		}
	})
	r.follows = false
	return fault
}

// flowName is the first name of a flow that was read.
func (r *reader) flowName() string {
	for _, f := range [...]field{correlationID, baggage, promptID, traceID, conversationID, sessionID, taskID} {
		if len(r.values[f]) > 0 {
			return string(r.values[f])
		}
	}
	return ""
}

// within calls fn for the elements of the innermost list in an object, which is known to be JSON.
// place is where they are in the lists around.
func (r *reader) within(object []byte, depth int, place string, around [][]byte, fn func(element []byte, place string, slots [][]byte)) {
	slots := append([][]byte(nil), around...)
	var list [1][]byte
	if depth < len(r.m.each) {
		r.m.each[depth].list.walk(jsonwalk.New(object), list[:])
	}
	if len(list[0]) == 0 || list[0][0] != '[' {
		// The list is not there: the object is read by itself.
		r.m.root.walk(jsonwalk.New(object), slots)
		fn(object, place, slots)
		return
	}
	r.m.each[depth].around.walk(jsonwalk.New(object), slots)
	i := 0
	c := jsonwalk.New(list[0])
	for c.Array(); c.Element(); i++ {
		if c.Peek() != '{' {
			c.Skip()
			continue
		}
		r.within(c.Raw(), depth+1, place+"/"+strconv.Itoa(i), slots, fn)
	}
}
