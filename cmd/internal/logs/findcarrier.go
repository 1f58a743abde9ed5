package logs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"weir/events/adapter"
)

// Bounds of the search, whatever a file begins with.
const (
	maxCarriers   = 3  // inside each other
	maxCandidates = 32 // places that are looked at in one value
	maxLooked     = 16 // values that are looked at
)

// findCarrier looks for records of a known format in an input that begins with head. It returns their
// carriers, the outermost first, then the beginning of the records and their format. It returns no
// carriers if it finds nothing.
//
// fits returns the format of a beginning.
func findCarrier(head []byte, fits func(head []byte) (adapter.Format, error), deep int) ([]carrier, []byte, adapter.Format) {
	candidates := candidatesOf(head)
	insides := make([][]byte, len(candidates))
	whole := closed(head)
	weak, found := -1, adapter.Format{}
	// What is nearer goes first, also before what lies deeper in what is nearest.
	for i, c := range candidates {
		// Text between records is left out, unless there is nothing but text.
		if insides[i] = insideOf(c, whole); len(insides[i]) == 0 {
			c.text()
			insides[i] = insideOf(c, whole)
		}
		if len(insides[i]) == 0 {
			continue
		}
		format, err := fits(insides[i])
		switch {
		case err != nil:
		case !format.Held:
			return []carrier{c}, insides[i], format
		case weak < 0:
			weak, found = i, format
		}
	}
	if weak >= 0 {
		return candidates[weak : weak+1], insides[weak], found
	}
	if deep <= 1 {
		return nil, nil, adapter.Format{}
	}
	for i, c := range candidates {
		// What is within an object is a candidate itself.
		if w, ok := c.(*inside); bytes.IndexByte(insides[i], '{') < 0 || ok && w.object {
			continue
		}
		if more, inside, format := findCarrier(insides[i], fits, deep-1); more != nil {
			return append([]carrier{c}, more...), inside, format
		}
	}
	return nil, nil, adapter.Format{}
}

// insideOf returns what is carried in the beginning of a file, which ends anywhere and was closed
// there.
func insideOf(c carrier, head []byte) []byte {
	in := newCarried(c, bytes.NewReader(head))
	out, _ := io.ReadAll(in) // up to where it was cut
	return bytes.TrimLeft(out, "\n")
}

// candidatesOf returns the carriers that head may be of, the nearest first.
func candidatesOf(head []byte) []carrier {
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(text) == 0 {
		return nil
	}
	values := valuesOf(text)
	if len(values) == 0 {
		return append(columnsOf(text), &behindText{})
	}
	var out []carrier
	seen := map[string]bool{}
	holds := map[string]bool{} // places with an object, or with a text that may hold one
	ends := map[string]bool{}  // places where a text ends with the end of its line
	for _, v := range values {
		places(v, nil, func(path []step, value any) {
			s, isText := value.(string)
			w := &inside{path: path, object: !isText}
			says := w.says()
			if !isText || strings.Contains(s, "{") {
				holds[says] = true
			}
			if strings.HasSuffix(s, "\n") {
				ends[says] = true
			}
			if !seen[says] && len(out) < maxCandidates {
				seen[says] = true
				out = append(out, w)
			}
		})
	}
	out = slices.DeleteFunc(out, func(c carrier) bool { return !holds[c.says()] })
	for _, c := range out {
		c.(*inside).pieces = ends[c.says()]
	}
	slices.SortStableFunc(out, func(a, b carrier) int { return cmp.Compare(len(a.(*inside).path), len(b.(*inside).path)) })
	// Records of their own with lines of text between them, as what a program prints.
	return append(out, &behindText{})
}

// columnsOf returns the columns of a table that hold JSON in its first rows, and behind them the
// rows themselves.
func columnsOf(text []byte) (out []carrier) {
	names, rows, _ := bytes.Cut(text, []byte("\n"))
	for _, comma := range []rune{',', '\t', ';'} {
		// A single column is one only where its fields are quoted: a line of text has no comma either.
		if bytes.ContainsRune(names, '{') || !bytes.ContainsRune(names, comma) && !bytes.HasPrefix(rows, []byte(`"{`)) {
			continue
		}
		in := table(bytes.NewReader(closed(text)), comma)
		header, err := in.Read()
		if err != nil {
			continue
		}
		if header = slices.Clone(header); len(header) > 1 {
			defer func() { out = append(out, &tableRow{comma: comma}) }()
		}
		for range maxLooked {
			row, err := in.Read()
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			for i, field := range row {
				is := func(c carrier) bool { t := c.(*column); return t.at == i && t.comma == comma }
				if strings.HasPrefix(strings.TrimSpace(field), "{") && i < len(header) && !slices.ContainsFunc(out, is) {
					out = append(out, &column{comma: comma, at: i, name: header[i]})
				}
			}
		}
	}
	return out
}

// valuesOf returns the first JSON objects of a beginning, whole or closed where it was cut.
func valuesOf(text []byte) (out []any) {
	if text[0] != '{' && text[0] != '[' {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(closed(text)))
	for range maxLooked {
		var v any
		if d.Decode(&v) != nil {
			break
		}
		switch v := v.(type) {
		case map[string]any:
			out = append(out, v)
		case []any: // a list of records, which is read as if they were lines
			for _, one := range v[:min(len(v), maxLooked)] {
				if _, ok := one.(map[string]any); ok {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// places visits the objects and texts within a value.
func places(value any, path []step, visit func([]step, any)) {
	if len(path) > 8 {
		return
	}
	below := func(s step, v any) {
		next := append(slices.Clone(path), s)
		switch v := v.(type) {
		case string:
			if len(v) > 1 {
				visit(next, v)
			}
		case map[string]any:
			visit(next, v)
			places(v, next, visit)
		case []any:
			places(v, next, visit)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			below(step{name: name}, value[name])
		}
	case []any:
		for i, v := range value[:min(len(value), maxLooked)] {
			// A list in a list is a row, of which each place means something else.
			_, scalar := v.(string)
			if scalar && len(path) > 0 && path[len(path)-1].index == every {
				below(step{index: i + 1}, v)
			} else {
				below(step{index: every}, v)
			}
		}
	}
}

// closed ends the strings, objects and arrays that the beginning of JSON leaves open, so that it
// can be looked into. What is no JSON stays as it is.
func closed(head []byte) []byte {
	if first := bytes.TrimLeft(head, " \t\r\n"); len(first) == 0 || first[0] != '{' && first[0] != '[' {
		return head
	}
	var open []byte
	inString, value := false, false // whether a string is open, and is a value
	last, lastOpen := 0, 0          // where the last comma was, with how much open
	for i := 0; i < len(head); i++ {
		switch b := head[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			if inString = !inString; inString {
				before := bytes.TrimRight(head[:i], " \t\r\n")
				value = len(open) > 0 && (open[len(open)-1] == ']' || bytes.HasSuffix(before, []byte(":")))
			}
		case inString:
		case b == '{', b == '[':
			open = append(open, b+2)
			last, lastOpen = i+1, len(open)
		case b == '}', b == ']':
			if len(open) == 0 {
				return head
			}
			open = open[:len(open)-1]
			last, lastOpen = i+1, len(open)
		case b == ',':
			last, lastOpen = i, len(open)
		}
	}
	if len(open) == 0 && !inString {
		return head
	}
	out := slices.Clone(head)
	if inString && value {
		// An escape that was cut would take the end of the string for itself.
		if k := bytes.LastIndexByte(out, '\\'); k >= len(out)-6 && k >= 0 {
			for k > 0 && out[k-1] == '\\' {
				k--
			}
			out = out[:k]
		}
		out = append(out, '"')
	} else {
		out, open = out[:last], open[:min(lastOpen, len(open))]
	}
	slices.Reverse(open)
	return append(out, open...)
}
