package jsonwalk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// walk goes through a whole text and writes down what it meets.
func walk(text string) string {
	c := jsonwalk.New([]byte(text))
	var out strings.Builder
	var value func()
	value = func() {
		switch c.Peek() {
		case '{':
			out.WriteByte('{')
			for c.Object(); c.Member(); {
				fmt.Fprintf(&out, "%s:", c.Key())
				value()
				out.WriteByte(' ')
			}
			out.WriteByte('}')
		case '[':
			out.WriteByte('[')
			for c.Array(); c.Element(); {
				value()
				out.WriteByte(' ')
			}
			out.WriteByte(']')
		default:
			fmt.Fprintf(&out, "<%s>", c.Scalar())
		}
	}
	value()
	c.End()
	if err := c.Err(); err != nil {
		var e *events.DecodeError
		if !errors.As(err, &e) {
			return "no code: " + err.Error()
		}
		return string(e.Code)
	}
	return out.String()
}

func TestCursor(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := walk(text); got != want {
			t.Errorf("of %q came %q, want %q", text, got, want)
		}
	}
	f(`{}`, `{}`)
	f(` { "a" : [ 1 , -2.5e3 , true , null , "x" ] , "b" : { } } `, `{a:[<1> <-2.5e3> <true> <> <x> ] b:{} }`)
	f(`"\u20ac\ud83d\ude00\n\/\"\\"`, "<€😀\n/\"\\>")
	f(`"\ud83d \q \u12"`, "<\uFFFD q u12>")
	f(`{"a\"b":"c\\"}`, `{a"b:<c\> }`)
	f(``, `syntax`)
	f(`{`, `syntax`)
	f(`{"a"`, `syntax`)
	f(`{"a":`, `syntax`)
	f(`{"a":1`, `syntax`)
	f(`{"a":1,}`, `syntax`)
	f(`{"a" 1}`, `syntax`)
	f(`{"a":1 "b":2}`, `syntax`)
	f(`[1 2]`, `syntax`)
	f(`[1}`, `syntax`)
	f(`"x`, `syntax`)
	f(`"x\"`, `syntax`)
	f(`tru`, `syntax`)
	f(`{a:1}`, `syntax`)
	f(`{} x`, `trailing_data`)
	f(strings.Repeat("[", 10_000), `too_deep`)
}

// TestUnread holds that unread values are skipped in any place.
func TestUnread(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var got []byte
		c := jsonwalk.New([]byte(text))
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "a":
				got = append(append(got, c.Text()...), ' ')
			case "list":
				for c.MaybeArray(); c.Element(); {
					if c.Peek() == '"' {
						got = append(append(got, c.Text()...), ' ')
					}
				}
			}
		}
		c.End()
		if string(got) != want || c.Err() != nil {
			t.Errorf("%s: got %q, want %q; %v", text, got, want, c.Err())
		}
	}
	f(`{"x":{"a":"no","y":[1,{}]},"a":"1","y":null,"a":"2","z":[[]]}`, "1 2 ")
	f(`{"list":[1,"b",[],{"a":"no"},"c",null],"a":"d"}`, "b c d ")
	f(`{"list":7,"x":-1e3,"list":[],"list":null,"a":"e","x":"f"}`, "e ")
	f(`{ "x" : true , "list" : [ [ ] , [ ] ] }`, "")
	f(`null`, "")
	c := jsonwalk.New([]byte(`{"x":[1,"a":2}`))
	for c.Object(); c.Member(); {
	}
	if c.Err() == nil {
		t.Error("what is passed over is not followed to its end")
	}
}

func TestCursorSkips(t *testing.T) {
	c := jsonwalk.New([]byte(`{"skip":{"x":["]}\"",{}]},"n":"12","m":13,"f":1.5,"big":18446744073709551616,"yes":true,"nothing":null,"list":null,"wrong":"x"}`))
	got := map[string]any{}
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); key {
		case "n", "m", "f", "big":
			v, ok := c.Int()
			got[key] = fmt.Sprint(v, ok)
		case "yes":
			got[key] = c.Bool()
		case "nothing":
			for c.Object(); c.Member(); {
				t.Error("null has a member")
			}
		case "list":
			for c.Array(); c.Element(); {
				t.Error("null has an element")
			}
		case "wrong":
			c.Array()
		default:
			got[key] = string(c.Raw())
		}
	}
	want := `map[big:0 false f:0 false m:13 true n:12 true skip:{"x":["]}\"",{}]} yes:true]`
	if fmt.Sprint(got) != want {
		t.Errorf("came %v, want %s", got, want)
	}
	var e *events.DecodeError
	if err := c.Err(); !errors.As(err, &e) || e.Code != events.CodeWrongType {
		t.Errorf("a string where an array belongs: %v", err)
	}
	if c.Element() || c.Peek() != 0 || c.Raw() != nil || c.Text() != nil {
		t.Error("the cursor goes on after a fault")
	}
}

// FuzzCursor compares with encoding/json: what that takes the cursor takes, and a
// skipped value ends at the same place.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"x\\\""}]}`, `"\u00e9"`, `[[],{},null]`, `-1e9`,
		`"a string that is longer than a look, \n with an \"escape\" \\\\ in it"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := walk(string(text))
		if json.Valid(text) && (out == "syntax" || out == "trailing_data" || out == "wrong_type") {
			t.Fatalf("%q is refused: %s", text, out)
		}
		c := jsonwalk.New(text)
		if raw := c.Raw(); json.Valid(text) && c.Err() == nil && strings.TrimSpace(string(text)) != string(raw) {
			t.Fatalf("%q was skipped to %q", text, raw)
		}
		var want string
		if utf8.Valid(text) && !bytes.Contains(text, []byte("null")) && json.Unmarshal(text, &want) == nil {
			if got := jsonwalk.New(text).Text(); string(got) != want {
				t.Fatalf("%q says %q, want %q", text, got, want)
			}
		}
	})
}
