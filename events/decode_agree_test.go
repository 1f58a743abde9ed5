package events

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDecodersAgreeOnComposedEvents puts good events together from the fields of
// full and then spoils some, which reaches further than bytes that a fuzzer turns.
func TestDecodersAgreeOnComposedEvents(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := composer{random}
	accepted := 0
	const rounds = 2_000
	for range rounds {
		text := []byte(c.event())
		if e, ok := agree(t, text); ok {
			accepted++
			roundTrip(t, &e)
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d events were accepted; the test wants many of both", accepted, rounds)
	}
}

type composer struct{ *rand.Rand }

func (c composer) one(in int) bool { return c.IntN(in) == 0 }

func pick[T any](c composer, from []T) T { return from[c.IntN(len(from))] }

// event keeps id, time and kind of full, mostly, and some of the rest.
func (c composer) event() string {
	var out []plainField
	for _, f := range plainObject([]byte(full)) {
		switch f.name {
		case "id", "time":
			if c.one(200) {
				continue
			}
		case "kind":
			f.raw = json.RawMessage(`"` + pick(c, Kinds()).String() + `"`)
		default:
			if c.one(2) {
				continue
			}
		}
		out = append(out, c.spoil(f))
	}
	return c.space() + c.object(out) + c.space()
}

// spoil returns a field that may have another name, or another value, or fields of
// its own that are spoilt.
func (c composer) spoil(f plainField) plainField {
	switch {
	case startsWith(f.raw, '{'):
		var inner []plainField
		for _, g := range plainObject(f.raw) {
			if !c.one(20) {
				inner = append(inner, c.spoil(g))
			}
		}
		f.raw = json.RawMessage(c.object(inner))
	case c.one(25) && (startsWith(f.raw, '0') || strings.ContainsAny(string(f.raw[:1]), "123456789-")):
		f.raw = json.RawMessage(pick(c, numbers))
	case c.one(40) && startsWith(f.raw, '"'):
		f.raw = json.RawMessage(pick(c, strs))
	}
	if c.one(300) {
		f.raw = json.RawMessage(pick(c, append(others, f.raw)))
	}
	if c.one(300) {
		f.name = pick(c, []string{strings.ToUpper(f.name), strings.ReplaceAll(f.name, "_", ""), f.name + "_", f.name + "x", "x", "", "correlationId", "correlationid"})
	}
	return f
}

var numbers = []string{"0", "-0", "0.0", "-0.0", "1", "01", "1.", "1.0", "1e0", "1E+2", "1e-2", "-1", "0.5", ".5", "1.5e-7", "0.0000005",
	"0.00000049999999999999999999", "1000000000", "1000000000.0", "1000000000.0000001", "1e9", "1.000000001e9", "9007199254740992",
	"9007199254740993", "9007199254740991.5", "9007199254740992.5", "1e308", "1e309", "1e-400", "123456789012345678901234567890",
	"12345678901234567890e-12", "0.1234567890123456789012345678901234567890", "99999999999999999999e-19", "1e", "1e+", "--1", "+1", "NaN"}

var strs = []string{`""`, `"a"`, `"a\nb"`, `"\u0000"`, `"\u00e9"`, `"é"`, `"\ud83d\ude00"`, `"😀"`, `"\ud83d"`, `"\ude00\ud83d"`, `"a\/b\\\""`,
	"\"\x7f\"", "\"a\tb\"", "\"\xc3\"", "\"\xed\xa0\x80\"", `"\`, `"`, `"\x41"`, `"ok"`, `"agent"`, `"loooooooooooooooooooooooooooooong"`,
	`"` + strings.Repeat("ü", 64) + `"`, `"` + strings.Repeat("ü", 65) + `"`, `"` + strings.Repeat("x", 256) + `"`,
	`"` + strings.Repeat("x", 257) + `"`, `"` + strings.Repeat(`\n`, 1024) + `"`, `"` + strings.Repeat(`\n`, 1025) + `"`,
	`"2026-11-20T14:00:00Z"`, `"2026-02-30T14:00:00Z"`, `"2026-11-20T14:00:00.123456+02:00"`, `"1970-01-01T00:00:00Z"`,
	`"md5:00000000000000000000000000000000"`, `"md5:000000000000000"`, `"MD5:0000000000000000"`, `"simhash64:0123456789abcdef"`,
	`"0123456789abcdef"`, `"0123456789abcdef0123456789abcdef"`, `"agent.call"`, `"tool"`, `"flow"`, `"off"`}

var others = []json.RawMessage{[]byte("null"), []byte("true"), []byte("false"), []byte("tru"), []byte("{}"), []byte("[]"), []byte("[[]]"),
	[]byte(`{"a":1,"a":2}`), []byte(`{"a":{"b":[{"c":1,"\u0063":1}]}}`), []byte(`[1,]`), []byte(`["a" "b"]`), []byte(`{"a"}`), []byte(``),
	[]byte(strings.Repeat("[", 31) + strings.Repeat("]", 31)), []byte(strings.Repeat("[", 32) + strings.Repeat("]", 32)),
	[]byte(strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31)), []byte("{\n\"b\" :\r\n1}")}

func (c composer) object(fields []plainField) string {
	if c.one(5) {
		c.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if c.one(200) && len(fields) > 0 {
		fields = append(fields, pick(c, fields))
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		name := `"` + f.name + `"`
		if c.one(50) && f.name != "" {
			name = `"\u00` + string(hexDigits[f.name[0]>>4]) + string(hexDigits[f.name[0]&15]) + f.name[1:] + `"`
		}
		b.WriteString(c.space() + name + c.space() + ":" + c.space())
		b.Write(f.raw)
		b.WriteString(c.space())
	}
	b.WriteByte('}')
	return b.String()
}

func (c composer) space() string {
	if !c.one(20) {
		return ""
	}
	if c.one(200) {
		return pick(c, []string{"\v", "\u00a0", "\x00", "/**/", ","})
	}
	return pick(c, []string{" ", "\n", "\t", "\r\n", "  "})
}
