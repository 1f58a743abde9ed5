// Package anyvalue reads attribute values of OTLP JSON.
package anyvalue

import "weir/events/adapter/jsonwalk"

// Text reads an AnyValue and returns its text: what a string says, the digits of a
// number, the JSON of a list. It may alias the text of the cursor.
//
// Digits are returned as they are written, so that no number passes through a float64. What is
// no AnyValue is skipped and gives nil. Of several members the last counts.
func Text(c *jsonwalk.Cursor) (text []byte) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "stringValue":
			text = c.Text()
		case "intValue", "doubleValue", "boolValue":
			text = c.Scalar()
		case "arrayValue", "kvlistValue":
			text = appendComposite(nil, string(c.Key()), c)
		}
	}
	return text
}

// appendJSON appends an AnyValue as the JSON that it stands for.
//
// Lists and objects in it are those that a program gave, so that their hash is that of the
// same JSON from elsewhere. An unknown value is null.
func appendJSON(dst []byte, c *jsonwalk.Cursor) []byte {
	if c.Peek() != '{' {
		c.Skip()
		return append(dst, "null"...)
	}
	start := len(dst)
	for c.Object(); c.Member(); {
		switch kind := string(c.Key()); kind {
		case "stringValue":
			dst = append(dst[:start], c.Raw()...)
		// Numbers of 64 bits stand as strings in OTLP JSON.
		case "intValue":
			dst = append(dst[:start], c.Scalar()...)
		case "doubleValue", "boolValue":
			dst = append(dst[:start], c.Raw()...)
		case "arrayValue", "kvlistValue":
			dst = appendComposite(dst[:start], kind, c)
		}
	}
	// Nothing of the value was known.
	if len(dst) == start {
		dst = append(dst, "null"...)
	}
	return dst
}

// appendComposite appends a list, or an object with its members in the order in which they
// came; hashes sort them.
func appendComposite(dst []byte, kind string, c *jsonwalk.Cursor) []byte {
	// The two differ in their brackets and in whether elements have keys.
	isList := kind == "arrayValue"
	open, end := byte('{'), byte('}')
	if isList {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	for c.Object(); c.Member(); {
		// There is no other member; one that comes is passed over.
		if string(c.Key()) != "values" {
			continue
		}
		for c.Array(); c.Element(); {
			// The bracket is still the last byte in front of the first.
			if dst[len(dst)-1] != open {
				dst = append(dst, ',')
			}
			if isList {
				dst = appendJSON(dst, c)
				continue
			}
			// A pair may come with its value first, or without one.
			key, value := []byte(`""`), []byte("null")
			for c.Object(); c.Member(); {
				switch string(c.Key()) {
				case "key":
					key = c.Raw()
				case "value":
					value = appendJSON(nil, c)
				}
			}
			dst = append(append(append(dst, key...), ':'), value...)
		}
	}
	return append(dst, end)
}

// Attributes reads a list of attributes. It passes each to take with its text, which is
// nil if it has none; known reports whether a value of that name is needed.
//
// So the texts of attributes that are not needed are not assembled.
func Attributes(c *jsonwalk.Cursor, known func(key []byte) bool, take func(key, text []byte)) {
	for c.MaybeArray(); c.Element(); {
		var key, value []byte
		// Most exporters write the key first.
		wanted := true
		for c.MaybeObject(); c.Member(); {
			switch string(c.Key()) {
			case "key":
				key = c.Text()
				wanted = known(key)
			case "value":
				switch {
				case wanted && key != nil:
					value = Text(c)
				case wanted: // the value came before the key
					value = Text(jsonwalk.New(c.Raw()))
				default:
					c.Skip()
				}
			}
		}
		// An attribute without a key is skipped.
		if wanted && key != nil {
			take(key, value)
		}
	}
}
