package envelope

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// attributes are those of a CloudEvent that weir has a field for, by their names.
//
// The names are in lower case, as CloudEvents wants them.
type attributes map[string]string

// carried are the attributes that an event of weir's takes over where its data does not
// say them, with the names of the fields.
var carried = [...]struct{ attribute, field string }{
	{"id", "id"}, {"source", "source"}, {"time", "time"}, {"recordedtime", "observed_time"}, {"sequence", "sequence"},
	{"sampledrate", "sampled_rate"}, {"correlationid", "correlation_id"}, {"causationid", "causation_id"},
}

// isCarried is true for the attributes that are kept, of which type and traceparent are looked
// at apart.
func isCarried(name string) bool {
	return name == "type" || name == "traceparent" || slices.ContainsFunc(carried[:], func(c struct{ attribute, field string }) bool { return c.attribute == name })
}

// cloudEvent takes the data out of a CloudEvent, structured or binary. The wrapping is
// empty when it is none.
//
// Structured is one object with the event inside; binary has the attributes in headers and the
// data as the value.
func (m *Message) cloudEvent(value []byte) ([]byte, string, error) {
	contentType, _ := m.header("content-type")
	// The content type decides where there is one; otherwise the value has to look like an event.
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = ""
	}
	structured, isEvents := strings.CutPrefix(media, "application/cloudevents")
	switch {
	case isEvents && structured == "-batch+json":
		return nil, "", refuse(events.CodeInvalidValue, "a batch of CloudEvents; want one event in a record")
	case isEvents && structured != "" && structured != "+json":
		return nil, "", refuse(events.CodeInvalidValue, "a CloudEvent as %s; want application/cloudevents+json", media)
	// A search for the name is cheap, and only what has it is read as JSON.
	case isEvents || bytes.Contains(value, []byte(`"specversion"`)):
		inside, wrapping, err := structuredEvent(value, isEvents)
		if wrapping != "" {
			m.Headers = nil // or what is inside would be taken for one again
		}
		return inside, wrapping, err
	}
	if _, ok := m.header("ce_specversion"); !ok {
		return value, "", nil
	}
	// Binary: the attributes are headers with a prefix.
	a := attributes{}
	for i := range m.Headers {
		if name, ok := strings.CutPrefix(strings.ToLower(m.Headers[i].Name), "ce_"); ok && isCarried(name) {
			a[name] = string(m.Headers[i].Value)
		}
	}
	// The headers were of this envelope.
	m.Headers = nil
	inside, err := a.complete(value)
	return inside, "CloudEvents (binary)", err
}

// structuredEvent reads a CloudEvent that is one JSON object. With sure nothing else may
// be there.
//
// A value that only may be a CloudEvent is left alone when it is none.
func structuredEvent(value []byte, sure bool) ([]byte, string, error) {
	a, data, coded := attributes{}, []byte(nil), false
	needed := 0
	c := jsonwalk.New(value)
	for c.MaybeObject(); c.Member(); {
		switch name := string(c.Key()); name {
		case "data":
			data, coded = c.Raw(), false
		case "data_base64":
			data, coded = c.Text(), true
		// The specification requires all four. Only together they distinguish a CloudEvent from an
		// event of weir.
		case "specversion", "type", "source", "id":
			needed++
			a[name] = string(c.Text())
		default:
			if isCarried(name) {
				a[name] = string(c.Scalar())
			} else {
				c.Skip()
			}
		}
	}
	c.End()
	switch {
	case c.Err() == nil && needed == 4:
	case !sure:
		return value, "", nil // an adapter says what is wrong with it
	case c.Err() != nil:
		return nil, "", c.Err()
	default:
		return nil, "", refuse(events.CodeMissingField, "the CloudEvent lacks one of specversion, type, source and id")
	}
	if coded {
		plain, err := base64.StdEncoding.AppendDecode(nil, data)
		if err != nil {
			return nil, "", refuse(events.CodeInvalidValue, "data_base64 of the CloudEvent: %v", err)
		}
		data = plain
	} else if len(data) > 0 && data[0] == '"' {
		data = jsonwalk.New(data).Text() // JSON, or anything else, as a string
	}
	if len(data) == 0 || string(data) == "null" {
		data = []byte("{}") // all that is to say stands in the attributes
	}
	inside, err := a.complete(data)
	return inside, "CloudEvents (structured)", err
}

// complete puts the attributes into an event of weir's that does not say them itself:
// one of type weir.KIND.v1, or data with the kind of an event. Other data is left as it
// is, for its own format says what it means.
//
// What the data says itself is never changed. The result is what the producer would have
// written without CloudEvents.
func (a attributes) complete(data []byte) ([]byte, error) {
	// Lines, arrays and texts are left to their own format.
	if data[0] != '{' {
		return data, nil
	}
	has, kind, err := members(data)
	if err != nil {
		return nil, err
	}
	// weir.agent.call.v1 is an event of the kind agent.call.
	told, ours := strings.CutPrefix(a["type"], "weir.")
	told, current := strings.CutSuffix(told, ".v1")
	switch {
	case ours && current && kind != "" && kind != told:
		return nil, refuse(events.CodeInvalidValue, "the type of the CloudEvent is %s and the kind of its data %s", a["type"], kind)
	case ours && current && kind == "":
		kind = told
	case kind == "":
		// Neither the type nor the data says that it is an event of weir's.
		return data, nil
	}
	if !slices.ContainsFunc(events.Kinds(), func(k events.Kind) bool { return k.String() == kind }) {
		if ours {
			return nil, refuse(events.CodeInvalidValue, "the CloudEvent has the type %s, and no event has the kind %q", a["type"], kind)
		}
		return data, nil
	}
	// The attributes go in front of the members of data, which are copied as they are.
	out := append(make([]byte, 0, len(data)+256), '{')
	// put adds a member that the data does not have.
	put := func(field, value string, number bool) {
		if value == "" || has[strings.ReplaceAll(field, "_", "")] {
			return
		}
		name, _ := json.Marshal(field) // of a string: no error
		text, _ := json.Marshal(value)
		if number {
			text = []byte(value)
		}
		out = append(append(append(append(out, name...), ':'), text...), ',')
	}
	put("kind", kind, false)
	for _, f := range carried {
		value := a[f.attribute]
		number := f.field == "sequence" || f.field == "sampled_rate"
		if number { // numbers are texts in CloudEvents, and a sequence may be none
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				continue
			}
			value = strconv.FormatInt(n, 10)
		}
		put(f.field, value, number)
	}
	// The second field of a traceparent is the trace.
	if trace := strings.Split(a["traceparent"], "-"); len(trace) >= 4 && len(trace[1]) == 32 {
		put("trace_id", strings.ToLower(trace[1]), false)
	}
	rest := bytes.TrimSpace(data[1:])
	// Data without members: no comma behind the last attribute.
	if rest[0] == '}' && len(out) > 1 {
		out = out[:len(out)-1]
	}
	return append(out, rest...), nil
}

// members returns which members the data has, spelled alike, and its kind.
func members(data []byte) (has map[string]bool, kind string, err error) {
	has = map[string]bool{}
	c := jsonwalk.New(data)
	for c.Object(); c.Member(); {
		// The fields of an event may also be spelled without underscores and in camel case.
		name := strings.ReplaceAll(strings.ToLower(string(c.Key())), "_", "")
		has[name] = true
		if name == "kind" {
			kind = string(c.Text())
		} else {
			c.Skip()
		}
	}
	c.End()
	return has, kind, c.Err()
}
