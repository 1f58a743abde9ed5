package mapped

import (
	"errors"
	"fmt"
	"strings"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// mapping says where the fields of an event are found.
// It is made once by parse and only read after that.
type mapping struct {
	// filled says which fields are given in any way: fixed, by path or by expression.
	filled [fields]bool
	counts bool           // tokens or money are reported
	fixed  [fields][]byte // texts in double quotes
	root   node           // what the paths go through
	each   []level        // lists in the record whose elements are read instead of it, from the outside in
	// A slot is an index into what walk fills for a record: one for each path of the mapping.
	paths   [fields][]int             // slots, the first that is filled counts
	slots   int                       // of all paths
	jq      []expression              // what is no path
	meaning [fields]map[string]string // what to write for what is found
	outer   [fields]bool              // all paths are of records around the element
}

// has reports whether the mapping gives the field in any way.
func (m *mapping) has(f field) bool { return m.filled[f] }

// whole reports whether a record of a call also contains its outcome. A log with records of their
// own for results shows it by their kind.
func (m *mapping) whole() bool {
	if !m.has(kind) {
		return true
	}
	if len(m.meaning[kind]) == 0 {
		return false // its kinds are weir's own, results among them
	}
	for _, means := range m.meaning[kind] {
		if means == events.ToolResult.String() {
			return false
		}
	}
	return true
}

// node is a place in a record that paths lead to or through.
// Paths that begin alike share nodes, so a record is walked once, however many paths there
// are.
type node struct {
	slots   []int // paths that end here
	members map[string]*node
	items   map[int]*node
}

// parse reads a mapping: FIELD=VALUE, separated by commas or line ends; on a line of its
// own a # begins a comment.
// A mapping without what a flow is, or without any call, is refused: it would read a log and
// say nothing of it.
func parse(text string) (*mapping, error) {
	m := &mapping{}
	parts, err := m.takeEach(split(text))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := m.add(part); err != nil {
			return nil, err
		}
	}
	// Without a name all lines would be one flow, or each its own.
	if !m.named() {
		return nil, errors.New("the mapping does not say what a flow is: want flow=PATH (the same as correlation_id), or one of baggage, trace_id, conversation_id, session_id, task_id")
	}
	// Without these no record would be an event.
	if !m.has(to) && !m.has(toSession) && !m.has(tool) && !m.has(kind) {
		return nil, errors.New("the mapping tells no calls: want to=PATH, the agent that is called, or tool=PATH")
	}
	return m, nil
}

// named reports whether some field names the flow.
func (m *mapping) named() bool {
	for _, f := range [...]field{correlationID, baggage, promptID, traceID, conversationID, sessionID, taskID} {
		if m.has(f) {
			return true
		}
	}
	return false
}

// split cuts a mapping at the commas and line ends that are not inside brackets or
// quotes.
// Commas inside brackets and quotes belong to expressions of jq.
//
// It checks nothing: an open bracket or quote extends to the end.
func split(text string) (parts []string) {
	depth, quoted, begin := 0, false, 0
	// take ends a part before end; empty parts and comments are none.
	take := func(end int) {
		if part := strings.TrimSpace(text[begin:end]); part != "" && part[0] != '#' {
			parts = append(parts, part)
		}
		begin = end + 1
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		// The character behind a backslash ends nothing.
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '#' && strings.TrimSpace(text[begin:i]) == "":
			// The line end itself is left for the next turn, which takes the comment as a
			// part; take passes it over.
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n - 1
			} else {
				i = len(text) - 1
			}
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case (c == ',' || c == '\n') && depth <= 0:
			take(i)
		}
	}
	if begin < len(text) {
		take(len(text))
	}
	return parts
}

// add takes one FIELD=VALUE. FIELD.TEXT=VALUE may stand before or behind the place of its
// field, and more than once.
func (m *mapping) add(part string) error {
	// A value may hold further equals signs, as expressions do.
	name, value, ok := strings.Cut(part, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || value == "" {
		return fmt.Errorf("%q: want FIELD=VALUE, such as from=.sender.id", part)
	}
	// A text may have points: only the first one parts it from the field.
	base, found, isMeaning := strings.Cut(name, ".")
	f, known := fieldNamed(base)
	if !known {
		return fmt.Errorf("%q: there is no field %s; want one of %s", part, base, strings.Join(Fields(), ", "))
	}
	if isMeaning {
		if m.meaning[f] == nil {
			m.meaning[f] = map[string]string{}
		}
		// Quotes are for texts with blanks or points in them.
		m.meaning[f][strings.Trim(found, `"`)] = strings.Trim(value, `"`)
		return nil
	}
	// A field that is given twice is a slip: one of the two would be passed over.
	if m.filled[f] {
		return fmt.Errorf("%q: %s is given twice; put // between several places of one field", part, names[f])
	}
	m.filled[f] = true
	// See the order of the constants.
	m.counts = m.counts || f >= inputTokens && f <= costUSD
	// A text in quotes is the same in each record.
	if fixed, ok := quoted(value); ok {
		m.fixed[f] = fixed
		return nil
	}
	// Paths go before expressions: they are found while the record is walked, without a tree
	// of values. Each path is also a jq expression that means the same.
	if paths, ok := readPaths(value); ok {
		for _, p := range paths {
			from, err := m.above(p.up)
			if err != nil {
				return fmt.Errorf("%q: %w", part, err)
			}
			m.outer[f] = p.up > 0 && (m.outer[f] || len(m.paths[f]) == 0)
			m.paths[f] = append(m.paths[f], from.put(p.steps, &m.slots))
		}
		return nil
	}
	jq, err := compile(f, value)
	if err != nil {
		return fmt.Errorf("%q: %w", part, err)
	}
	m.jq = append(m.jq, jq)
	return nil
}

// quoted is false for a text with an interpolation, \(...), which is for jq to work out.
func quoted(value string) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	// The quotes and escapes are those of JSON.
	c := jsonwalk.New([]byte(value))
	text := c.Text()
	c.End()
	return text, c.Err() == nil && !strings.Contains(value, `\(`)
}

// step is one step of a path: a member, or an element when the name is empty.
type step struct {
	member string
	item   int
	isItem bool
}

// path is a way to a value: a number of records outwards, and from there inwards.
type path struct {
	up    int
	steps []step
}

// readPaths reads paths with // between them. It is false for anything else.
func readPaths(text string) (paths []path, ok bool) {
	// Also // within quotes cuts, and what it leaves is no path: it is then left to jq.
	for part := range strings.SplitSeq(text, "//") {
		part = strings.TrimSpace(part)
		inner := strings.TrimLeft(part, outward)
		steps, ok := readPath(inner)
		if !ok {
			return nil, false
		}
		paths = append(paths, path{len(part) - len(inner), steps})
	}
	return paths, true
}

// readPath reads one path as jq writes it: .a.b, .a[0], ."a b" and .["a b"]. The path "." is
// the whole record.
func readPath(p string) (steps []step, ok bool) {
	// It has no steps, and its value is the record as it stands.
	if p == "." {
		return nil, true
	}
	for p != "" {
		switch {
		case strings.HasPrefix(p, "[") || strings.HasPrefix(p, ".["):
			// An index or a name in brackets.
			end := strings.IndexByte(p, ']')
			// Without a dot before it [0] makes a list in jq and looks nothing up, so it is no
			// path at the beginning.
			inner, isPath := strings.CutPrefix(p[:max(end, 0)], ".")
			if end < 0 || !isPath && len(steps) == 0 {
				return nil, false
			}
			inner = strings.TrimPrefix(inner, "[")
			if name, isName := quoted(inner); isName {
				steps = append(steps, step{member: string(name)})
			} else {
				n, isNumber := jsonwalk.New([]byte(inner)).Int()
				// An index beyond any record is refused here, and is left to jq.
				if !isNumber || n < 0 || n > 1<<16 {
					return nil, false
				}
				steps = append(steps, step{item: int(n), isItem: true})
			}
			// What follows the bracket may be the next step of any form.
			p = p[end+1:]
		case strings.HasPrefix(p, `."`):
			end := strings.IndexByte(p[2:], '"')
			if end < 0 {
				return nil, false
			}
			name, isName := quoted(p[1 : end+3])
			if !isName {
				return nil, false
			}
			steps = append(steps, step{member: string(name)})
			p = p[end+3:]
		case p[0] == '.':
			n := 1
			// The bytes wrap around below '0' and 'a', so one comparison checks both ends.
			for n < len(p) && (p[n] == '_' || p[n]-'0' <= 9 || p[n]|0x20-'a' < 26) {
				n++
			}
			// A number behind the point is jq's, and no name.
			if n == 1 || p[1]-'0' <= 9 {
				return nil, false
			}
			steps = append(steps, step{member: p[1:n]})
			p = p[n:]
		default:
			return nil, false
		}
	}
	return steps, len(steps) > 0
}

// put adds a path and returns its slot.
// Each path has a slot of its own, also when two fields name the same place.
func (n *node) put(steps []step, slots *int) int {
	for _, s := range steps {
		// Members and elements of one place are different children.
		next := n.members[s.member]
		if s.isItem {
			next = n.items[s.item]
		}
		if next == nil {
			next = &node{}
			switch {
			case s.isItem && n.items == nil:
				n.items = map[int]*node{s.item: next}
			case s.isItem:
				n.items[s.item] = next
			case n.members == nil:
				n.members = map[string]*node{s.member: next}
			default:
				n.members[s.member] = next
			}
		}
		n = next
	}
	n.slots = append(n.slots, *slots)
	*slots++
	return *slots - 1
}

// maxSlots is for how many paths there is room without asking for memory.
// A mapping has rarely more paths; with more, each record costs an allocation.
const maxSlots = 64

// read finds the values of all fields in a record that is read as a whole. They may alias it.
func (m *mapping) read(record []byte, values *[fields][]byte) error {
	// It is zeroed for each record, so no value is left from the one before.
	var room [maxSlots][]byte
	slots := room[:]
	if m.slots > maxSlots {
		slots = make([][]byte, m.slots)
	}
	c := jsonwalk.New(record)
	if c.Peek() == '{' {
		m.root.walk(c, slots)
	} else {
		c.Object() // says what is wrong
	}
	c.End()
	if err := c.Err(); err != nil {
		return err
	}
	return m.assign(record, slots, values)
}

// assign gives each field the first of its paths that was found.
func (m *mapping) assign(record []byte, slots [][]byte, values *[fields][]byte) error {
	for f := range fields {
		// A field has one of the three: a text, paths or an expression.
		values[f] = m.fixed[f]
		for _, slot := range m.paths[f] {
			if values[f] = slots[slot]; values[f] != nil {
				break
			}
		}
	}
	if len(m.jq) > 0 {
		if err := m.evaluate(record, values); err != nil {
			return err
		}
	}
	// Meanings come last, so that they apply to values from expressions, too.
	for f, meaning := range m.meaning {
		if text, ok := meaning[string(values[f])]; ok && meaning != nil {
			values[f] = []byte(text)
		}
	}
	return nil
}

// walk reads the value that follows.
//
// What a path does not lead to is skipped by the cursor.
func (n *node) walk(c *jsonwalk.Cursor, slots [][]byte) {
	// A path may end here and another one lead on from here: then the value is read twice.
	if len(n.slots) > 0 {
		raw := c.Raw()
		inner := jsonwalk.New(raw)
		value := raw
		switch inner.Peek() {
		case '"':
			value = inner.Text()
		case 'n':
			// null counts as missing, so that the next of several paths is tried.
			value = nil
		}
		for _, slot := range n.slots {
			slots[slot] = value
		}
		// The raw text is walked again for the children.
		if len(n.members) > 0 || len(n.items) > 0 {
			n.within(jsonwalk.New(raw), slots)
		}
		return
	}
	n.within(c, slots)
}

// within goes to the children of an object or an array; a scalar has none.
func (n *node) within(c *jsonwalk.Cursor, slots [][]byte) {
	switch c.Peek() {
	case '{':
		for c.Object(); c.Member(); {
			if next := n.members[string(c.Key())]; next != nil {
				next.walk(c, slots)
			}
		}
	case '[':
		// Elements are counted, as a path names them.
		i := 0
		for c.Array(); c.Element(); i++ {
			if next := n.items[i]; next != nil {
				next.walk(c, slots)
			}
		}
	default:
		c.Skip()
	}
}

// evaluate computes what is no path.
// The record is decoded again for it, as a whole: it is only done when a mapping has
// expressions.
func (m *mapping) evaluate(record []byte, values *[fields][]byte) error {
	input, err := decode(record)
	if err != nil {
		return &events.DecodeError{Code: events.CodeSyntax, Offset: 0, Reason: err.Error()}
	}
	for i := range m.jq {
		text, err := m.jq[i].text(input)
		if err != nil {
			return &events.DecodeError{Code: events.CodeInvalidValue, Field: names[m.jq[i].field], Offset: -1, Reason: err.Error()}
		}
		values[m.jq[i].field] = text
	}
	return nil
}
