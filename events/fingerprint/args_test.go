package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"weir/events"
	"weir/events/fingerprint"
)

func TestCanonical(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := string(fingerprint.AppendCanonical(nil, []byte(raw), nil)); got != want {
			t.Errorf("canonical form of %q is %q, want %q", raw, got, want)
		}
	}
	f(`{}`, `{}`)
	f(` [ ] `, `[]`)
	f(`{"b":1,"a":2}`, `{"a":2,"b":1}`)
	f("{\n \"a\" : [ 1 , true , null , false ] }", `{"a":[1,true,null,false]}`)
	f(`{"a":1,"a":2}`, `{"a":2}`)
	f(`{"b":{"d":1,"c":[{"z":0,"y":0}]},"a":""}`, `{"a":"","b":{"c":[{"y":0,"z":0}],"d":1}}`)

	// Numbers, with the samples of RFC 8785 appendix B and section 3.2.2.
	f(`[1.0,1e2,1E+2,-0,0.0,-1.50]`, `[1,100,100,0,0,-1.5]`)
	f(`[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]`, `[333333333.3333333,1e+30,4.5,0.002,1e-27]`)
	f(`[9007199254740993,295147905179352830000,9.999999999999997e22,0.000001,1e-7,1e21]`,
		`[9007199254740992,295147905179352830000,9.999999999999997e+22,0.000001,1e-7,1e+21]`)
	f(`1e999`, `1e999`)

	// Strings.
	f(`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`)
	f(`["\ud83d\ude00","\ud83d","\u0000\b\f\t"]`, `["😀","`+"\uFFFD"+`","\u0000\b\f\t"]`)
	f("[\"\xff\"]", `["`+"\uFFFD"+`"]`)

	// Keys are sorted by UTF-16 code units: the emoji (D83D) before U+FB33.
	f(`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
		`{"\r":2,"1":4,"`+"\u0080"+`":6,"ö":7,"€":1,"😀":5,"`+"\ufb33"+`":3}`)

	// JSON in a string, and what is no JSON.
	f(`"{\"b\": 1, \"a\": 2}"`, `{"a":2,"b":1}`)
	f(`"[1, 2]"`, `[1,2]`)
	f(`"5"`, `"5"`)
	f(`"{bad"`, `"{bad"`)
	f(`Paris`, `"Paris"`)
	f(`"Paris"`, `"Paris"`)
	f(`{"a":1`, `"{\"a\":1"`)
	f(`{"a":1} x`, `"{\"a\":1} x"`)
	f(`[1,]`, `"[1,]"`)
	f(`{"a":01}`, `"{\"a\":01}"`)
	f(`tru`, `"tru"`)
	f(`-`, `"-"`)
}

func TestArgs(t *testing.T) {
	same := func(a, b string, ignore ...string) {
		t.Helper()
		if x, y := fingerprint.Args([]byte(a), ignore), fingerprint.Args([]byte(b), ignore); x != y || x.IsZero() {
			t.Errorf("%s and %s differ: %v, %v", a, b, x, y)
		}
	}
	differ := func(a, b string, ignore ...string) {
		t.Helper()
		if x, y := fingerprint.Args([]byte(a), ignore), fingerprint.Args([]byte(b), ignore); x == y {
			t.Errorf("%s and %s are the same: %v", a, b, x)
		}
	}
	same(`{"a":1,"b":2}`, `{ "b": 2, "a": 1.0 }`)
	same(`{"order_id":"A-17"}`, `"{\"order_id\": \"A-17\"}"`)
	same(`Paris`, ` "Paris" `)
	same(`{"q":"x","cursor":1}`, `{"q":"x","cursor":2}`, "cursor")
	same(`{"q":"x","cursor":1}`, `"{\"q\":\"x\"}"`, "cursor")
	differ(`{"q":{"cursor":1}}`, `{"q":{"cursor":2}}`, "cursor")
	differ(`{"a":1}`, `{"a":"1"}`)
	differ(`{}`, `[]`)
	differ(`Paris`, `paris`)

	if h := fingerprint.Args([]byte(" \n"), nil); !h.IsZero() {
		t.Errorf("no arguments have the hash %v, want none", h)
	}
	want := events.Hash{Algorithm: events.XXH64, Value: 0x5e6d10b99b1ba0b8}
	if h := fingerprint.Args([]byte(`{"a":1}`), nil); h.Algorithm != want.Algorithm {
		t.Errorf("algorithm %v", h.Algorithm)
	}
	// Deeper than any call is, so taken for text; still the same for the same bytes.
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	same(deep, deep)
}

// FuzzArgs holds the laws of the canonical form.
func FuzzArgs(f *testing.F) {
	for _, s := range []string{`{"b":[1,{"a":"x\n"}],"a":1.50e3}`, `"{\"a\":1}"`, `x`, `"\ud83d"`, "{\"\xff\":1,\"\xfe\":2}", `-0`, `{"":{"":{}}}`,
		`{"a":1,"a":{"c":0,"b":9007199254740993}}`} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, ignore string) {
		once := fingerprint.AppendCanonical(nil, raw, nil)
		if twice := fingerprint.AppendCanonical(nil, once, nil); !bytes.Equal(once, twice) {
			t.Fatalf("canonical form of %q is %q, and of that %q", raw, once, twice)
		}
		if !json.Valid(once) {
			t.Fatalf("canonical form of %q is not JSON: %q", raw, once)
		}
		if len(bytes.TrimSpace(raw)) > 0 && fingerprint.Args(raw, nil) != fingerprint.Args(once, nil) {
			t.Fatalf("%q and its canonical form differ", raw)
		}
		fingerprint.Args(raw, []string{ignore})

		var v any
		if d := json.NewDecoder(bytes.NewReader(raw)); len(raw) == 0 || d.Decode(&v) != nil || d.More() {
			return
		}
		if _, ok := v.(map[string]any); !ok || !json.Valid(raw) {
			return
		}
		// Another order of keys and other white space.
		if other := shuffled(v, rand.New(rand.NewPCG(1, uint64(len(raw))))); fingerprint.Args([]byte(other), nil) != fingerprint.Args(raw, nil) && exact(raw, v) {
			t.Fatalf("%q and %q differ", raw, other)
		}
	})
}

// exact reports whether encoding/json reads raw without loss: it keeps no numbers
// beyond float64 and replaces halves of surrogate pairs in keys that may collide.
func exact(raw []byte, v any) bool {
	var back any
	return json.Unmarshal(fingerprint.AppendCanonical(nil, raw, nil), &back) == nil && reflect.DeepEqual(v, back)
}

// shuffled writes v with the keys of its objects in another order and with white space.
func shuffled(v any, r *rand.Rand) string {
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for k, e := range v {
			key, _ := json.Marshal(k)
			members = append(members, " "+string(key)+"\t: "+shuffled(e, r))
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, ",\n") + "}"
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, shuffled(e, r))
		}
		return "[ " + strings.Join(elements, " , ") + " ]"
	}
	p, _ := json.Marshal(v)
	return string(p)
}

func BenchmarkArgs(b *testing.B) {
	run := func(name, raw string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				fingerprint.Args([]byte(raw), nil)
			}
		})
	}
	run("canonical", `{"fields":["a","b","c"],"order_id":"A-17","page":3,"verbose":false,"zone":"Europe/Paris"}`)
	run("unsorted", `{"zone": "Europe/Paris", "order_id": "A-17", "page": 3, "verbose": false, "fields": ["a", "b", "c"]}`)
	run("string", `"{\"order_id\": \"A-17\", \"page\": 3}"`)
}
