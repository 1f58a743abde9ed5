package jsonwalk_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// after reads the only element of a list, and fails where the cursor does not stand
// behind it.
func after(t *testing.T, text string, read func(*jsonwalk.Cursor) []byte) string {
	t.Helper()
	c := jsonwalk.New([]byte("[" + text + "]"))
	c.Array()
	c.Element()
	got := read(c)
	if c.Element() {
		t.Errorf("%s was not read to its end", text)
	}
	if c.End(); c.Err() != nil {
		t.Errorf("%s: %v", text, c.Err())
	}
	return string(got)
}

func TestTextOf(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := after(t, text, func(c *jsonwalk.Cursor) []byte { return c.TextOf("a") }); got != want {
			t.Errorf("the a of %s is %q, want %q", text, got, want)
		}
	}
	f(`{"b":{"a":"no"},"a":"x\ny"}`, "x\ny")
	f(`{"a":"x","a":"y"}`, "y")
	f(`{"a":{"a":"x"}}`, "")
	f(`{"a":1}`, "")
	f(`{}`, "")
	f(`null`, "")
	f(`"a"`, "")
	f(`[{"a":"x"}]`, "")
}

func TestTexts(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := after(t, text, (*jsonwalk.Cursor).Texts); got != want {
			t.Errorf("the texts of %s are %q, want %q", text, got, want)
		}
	}
	f(`[{"type":"text","text":"x"},{"text":"y"}]`, "x\ny")
	f(`[{"type":"image","data":"AA"},{"text":"y"}]`, `{"type":"image","data":"AA"}`+"\ny")
	f(`[{"text":null},"x",1,[2]]`, `{"text":null}`+"\n\"x\"\n1\n[2]")
	f(`[{"text":""},{"text":"y"}]`, "y")
	f(`[]`, "")
	f(`null`, "")
	f(`"x"`, "")
	f(`{"text":"x"}`, "")
}

func TestCount(t *testing.T) {
	f := func(text string, want int64) {
		t.Helper()
		if v, ok := jsonwalk.New([]byte(text)).Count(); v != want || ok != (want != 0) {
			t.Errorf("%s counts %d, %t; want %d", text, v, ok, want)
		}
	}
	f(`1`, 1)
	f(`"12"`, 12)
	f(`0`, 0)
	f(`-1`, 0)
	f(`1.5`, 0)
	f(`null`, 0)
	f(`9007199254740992`, events.MaxNumber)
	f(`9007199254740993`, 0)
}

func TestStamp(t *testing.T) {
	f := func(text string, want events.Stamp) {
		t.Helper()
		got, ok := jsonwalk.New([]byte(text)).Stamp()
		if got != want || ok != (want != 0) {
			t.Errorf("%s is %d (%v), want %d", text, got, ok, want)
		}
	}
	const at = 1774900012100
	f(`"2026-03-30T19:46:52.1Z"`, at)
	f(`"2026-03-30T21:46:52.100+02:00"`, at)
	f(`"2026-03-30 19:46:52.100"`, at)
	f(`"2026-03-30T19:46:52.100999"`, at)
	f(`1774900012100`, at)
	f(`"1774900012100"`, at)
	f(`1774900012.1`, at)
	f(`1774900012.1009`, at)
	f(`1774900012100000`, at)
	f(`1774900012100000000`, at)
	f(`1774900012`, at-100)
	for _, wrong := range []string{`null`, `true`, `{}`, `[1]`, `"noon"`, `12`, `-5`, `"0000-01-10 00:00:00"`, `"1970-01-01T00:00:00Z"`, `99999999999999999999`} {
		f(wrong, 0)
	}
}
