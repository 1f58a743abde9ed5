package mapped

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Auto is the mapping that stands for the one that Propose finds.
const Auto = "auto"

// Proposal is a mapping that was made from the beginning of a log, and what it reads there.
type Proposal struct {
	Mapping string
	Records int            // that were looked at
	Events  map[string]int // by kind
	Flows   int
	Tools   []string // the first ones, by name
	OneFlow bool     // nothing in the log says what a flow is, so all of it is one
	Untimed bool     // nothing in the log is a time, so records keep their order

	score int
}

// String says what the mapping reads.
func (p *Proposal) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(p.Events)) {
		parts = append(parts, fmt.Sprintf("%d %s", p.Events[k], k))
	}
	flows := fmt.Sprintf("in %d flows", p.Flows)
	switch {
	case p.OneFlow:
		flows = "in one flow, because no member names one"
	case p.Flows == 1:
		flows = "in 1 flow"
	}
	text := fmt.Sprintf("%s %s", strings.Join(parts, ", "), flows)
	if len(p.Tools) > 0 {
		text += "; tools: " + strings.Join(p.Tools, ", ")
	}
	if p.Untimed {
		text += "; no times: rules about time do not apply"
	}
	return text
}

// Bounds of what is looked at.
const (
	maxSampled = 400 // records, or elements of lists
	maxColumns = 400 // places in records
	maxWords   = 24  // different values of a place that are kept
	maxInside  = 4   // objects in objects
	shownTools = 6
)

// Propose makes a mapping from the beginning of a log of JSON objects, which may be cut off. The
// same bytes give the same mapping. The error says what is missing.
func Propose(head []byte) (*Proposal, error) {
	records := sample(head)
	if len(records) == 0 {
		return nil, errors.New("no mapping: it holds no JSON object")
	}
	var best *Proposal
	for _, list := range lists(records) {
		p := propose(records, list)
		if p != nil && (best == nil || p.score > best.score) {
			best = p
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no mapping: no member of %d records looks like a tool or an agent that is called", len(records))
	}
	return best, nil
}

// Try reads the beginning of a log by a mapping; nil when nothing comes of it.
func Try(mapping string, head []byte) *Proposal {
	p := &Proposal{Mapping: mapping}
	return p.try(sample(head))
}

// sample decodes the first records: lines, elements of an array, or documents. Of what is cut off
// it keeps what is there.
func sample(head []byte) (out []map[string]any) {
	rest := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	for len(out) < maxSampled {
		rest = bytes.TrimLeft(rest, " \t\r\n[,]")
		if len(rest) == 0 {
			return out
		}
		d := json.NewDecoder(bytes.NewReader(rest))
		d.UseNumber()
		v, err := tree(d)
		if object, ok := v.(map[string]any); ok && len(object) > 0 {
			out = append(out, object)
		}
		if err == nil {
			rest = rest[d.InputOffset():]
			continue
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out // cut off
		}
		// Something that is no JSON may stand between records, on lines of its own.
		next := bytes.IndexByte(rest, '\n')
		if next < 0 {
			return out
		}
		rest = rest[next+1:]
	}
	return out
}

// tree reads one value, as far as it goes.
func tree(d *json.Decoder) (v any, err error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return object, err
			}
			member, err := tree(d)
			if member != nil {
				object[name.(string)] = member
			}
			if err != nil {
				return object, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		var list []any
		for d.More() {
			element, err := tree(d)
			if element != nil {
				list = append(list, element)
			}
			if err != nil {
				return list, err
			}
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

// lists are the lists of objects in the records, as each= names them: "" for the records
// themselves, and lists in lists behind those that they are in.
func lists(records []map[string]any) []string {
	found := map[string]bool{"": true}
	var look func(v any, place string, inside int)
	look = func(v any, place string, inside int) {
		switch v := v.(type) {
		case map[string]any:
			if inside > maxInside {
				return
			}
			for name, member := range v {
				look(member, place+step1(name), inside+1)
			}
		case []any:
			if strings.Count(place, "[]") >= maxLevels || len(found) > 64 {
				return
			}
			for _, element := range v {
				if object, ok := element.(map[string]any); ok {
					found[place+"[]"] = true
					look(object, place+"[]", 0)
				}
			}
		}
	}
	for _, r := range records {
		look(r, "", 0)
	}
	return slices.Sorted(maps.Keys(found))
}

// plain is a name that a path may have without quotes.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// step1 is one step of a path.
func step1(name string) string {
	if plain.MatchString(name) {
		return "." + name
	}
	return "." + strconv.Quote(name)
}

// column is a place in the records that are read, and what stands there.
type column struct {
	path    string
	up      int
	words   []string       // of the path, in lower case, the last member last
	seen    int            // records that have it
	texts   map[string]int // different values, up to maxWords
	varied  bool           // there are more
	strings int
	numbers int
	bools   int
	times   int // values that are a time
	longest int
}

// table is what a list of records looks like.
type table struct {
	columns []*column
	by      map[string]*column
	rows    int
}

// tabulate reads the elements of a list, with what is around them.
func tabulate(records []map[string]any, list string) *table {
	t := &table{by: map[string]*column{}}
	var levels [][]string
	for text := range strings.SplitSeq(strings.TrimSuffix(list, "[]"), "[]") {
		if text != "" {
			levels = append(levels, members(text))
		}
	}
	var enter func(object map[string]any, around []map[string]any)
	enter = func(object map[string]any, around []map[string]any) {
		if t.rows >= maxSampled {
			return
		}
		if len(around) == len(levels) {
			t.rows++
			t.add(object, "", nil, 0, 0)
			for up := range around {
				t.add(around[len(around)-1-up], strings.Repeat(outward, up+1), nil, up+1, 0)
			}
			return
		}
		v := any(object)
		for _, name := range levels[len(around)] {
			inner, ok := v.(map[string]any)
			if !ok {
				return
			}
			v = inner[name]
		}
		elements, _ := v.([]any)
		for _, e := range elements {
			if element, ok := e.(map[string]any); ok {
				enter(element, append(around[:len(around):len(around)], object))
			}
		}
	}
	for _, r := range records {
		enter(r, nil)
	}
	slices.SortFunc(t.columns, func(a, b *column) int { return cmp.Compare(a.path, b.path) })
	return t
}

// members are the names in a path.
func members(path string) (names []string) {
	steps, _ := readPath(path)
	for _, s := range steps {
		names = append(names, s.member)
	}
	return names
}

// camel parts the words of names such as toolName.
var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// wordOf is a name as it is compared: tool_name for toolName, tool-name and "Tool Name".
func wordOf(name string) string {
	name = strings.ToLower(camel.ReplaceAllString(name, "${1}_$2"))
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '.' || r == '/' {
			return '_'
		}
		return r
	}, name), "_@$")
}

// add counts the values of an object and of the objects in it.
func (t *table) add(object map[string]any, place string, words []string, up, inside int) {
	for name, v := range object {
		path := place + step1(name)
		c := t.by[path]
		if c == nil {
			if len(t.columns) >= maxColumns {
				continue
			}
			c = &column{path: path, up: up, words: append(words[:len(words):len(words)], wordOf(name)), texts: map[string]int{}}
			t.by[path], t.columns = c, append(t.columns, c)
		}
		c.take(v)
		if inner, ok := v.(map[string]any); ok && inside < maxInside {
			t.add(inner, path, c.words, up, inside+1)
		}
	}
}

// take counts a value.
func (c *column) take(v any) {
	c.seen++
	text := ""
	switch v := v.(type) {
	case string:
		c.strings, text = c.strings+1, v
	case json.Number:
		c.numbers, text = c.numbers+1, v.String()
	case bool:
		c.bools, text = c.bools+1, strconv.FormatBool(v)
	default:
		return
	}
	if _, ok := jsonwalk.Stamp([]byte(text)); ok && timely(text) {
		c.times++
	}
	c.longest = max(c.longest, len(text))
	if _, known := c.texts[text]; known || len(c.texts) < maxWords {
		c.texts[text]++
	} else {
		c.varied = true
	}
}

// timely reports whether a number may be a time: of this century, in seconds, ms, µs or ns.
func timely(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return true // a text in the form of RFC 3339
	}
	for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
		if f >= 1e9*unit && f < 4e9*unit {
			return true
		}
	}
	return false
}

// propose makes the mapping for a list; nil when nothing in it is a call.
func propose(records []map[string]any, list string) *Proposal {
	t := tabulate(records, list)
	if t.rows == 0 {
		return nil
	}
	chosen := t.choose()
	if chosen[tool] == "" && chosen[to] == "" && chosen[kind] == "" {
		return nil
	}
	var parts []string
	if list != "" {
		parts = append(parts, eachName+"="+strings.TrimSuffix(list, "[]"))
	}
	p := &Proposal{Untimed: chosen[at] == ""}
	if !slices.ContainsFunc([]field{correlationID, traceID, conversationID, sessionID, taskID}, func(f field) bool { return chosen[f] != "" }) {
		chosen[correlationID], p.OneFlow = `"log"`, true
	}
	for f, value := range chosen {
		if value != "" {
			parts = append(parts, names[f]+"="+value)
		}
	}
	parts = append(parts, t.meanings(chosen)...)
	p.Mapping = strings.Join(parts, ",")
	return p.try(records)
}

// try reads the records by the mapping, and counts the events; nil when there are none.
func (p *Proposal) try(records []map[string]any) *Proposal {
	m, err := parse(p.Mapping)
	if err != nil {
		return nil
	}
	p.Events = map[string]int{}
	flows, tools := map[string]bool{}, map[string]bool{}
	emit := func(e *events.Event) {
		p.Events[e.Kind.String()]++
		flows[e.CorrelationID] = true
		switch e.Kind {
		case events.ToolCall:
			p.score += 4
			if !e.Tool.ArgsHash.IsZero() {
				p.score++
			}
			if name := e.Tool.Name; !tools[name] {
				if tools[name] = true; len(p.Tools) < shownTools {
					p.Tools = append(p.Tools, name)
				}
			}
		case events.ToolResult:
			if p.score += 2; !e.Content.IsZero() || e.Status == events.StatusError {
				p.score += 2
			}
		case events.AgentCall, events.AgentReturn:
			p.score += 3
		}
	}
	r := newReader(m, adapter.Options{})
	for _, record := range records {
		p.Records++
		raw, err := json.Marshal(record)
		if err == nil {
			err = r.Decode(raw, emit)
		}
		if err != nil {
			p.score -= 6 // a mapping that reads records wrongly
		}
	}
	_ = r.Flush(emit)
	p.Flows = len(flows)
	if p.Events[events.ToolCall.String()]+p.Events[events.AgentCall.String()] == 0 {
		return nil
	}
	return p
}
