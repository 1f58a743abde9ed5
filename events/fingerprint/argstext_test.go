package fingerprint_test

import (
	"fmt"
	"math/bits"
	"testing"

	"weir/events"
	"weir/events/fingerprint"
)

// TestArgsText holds that what counts on is not near, and that other words are as near as Text
// has them.
func TestArgsText(t *testing.T) {
	apart := func(a, b string) int {
		t.Helper()
		x, y := fingerprint.ArgsText([]byte(a)), fingerprint.ArgsText([]byte(b))
		if x.Algorithm != events.Simhash64 || y.Algorithm != events.Simhash64 {
			t.Fatalf("%q or %q has no fingerprint", a, b)
		}
		return bits.OnesCount64(x.Value ^ y.Value)
	}
	const pages = `{"command":"curl -s -H \"Authorization: Bearer $TOKEN\" -H \"Accept: application/json\" \"https://shop.example.com/api/orders?status=all&page=%d&per_page=20\" | jq ."}`
	for page := range 50 {
		if n := apart(fmt.Sprintf(pages, page), fmt.Sprintf(pages, page+1)); n <= events.NearBits {
			t.Errorf("pages %d and %d are %d bits apart", page, page+1, n)
		}
	}
	if n := apart(`{"cursor":"Y3Vyc29yOjI="}`, `{"cursor":"Y3Vyc29yOjM="}`); n <= events.NearBits {
		t.Errorf("cursors are %d bits apart", n)
	}
	const columns = `{"sql":"SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '%s' ORDER BY ordinal_position"}`
	if n := apart(fmt.Sprintf(columns, "orders"), fmt.Sprintf(columns, "customers")); n <= events.NearBits {
		t.Errorf("tables are %d bits apart", n)
	}
	for _, same := range [][2]string{
		{`{"query":"SELECT name FROM city LIMIT 10"}`, `{"query":"select name from city limit 10;"}`},
		{`{"command":"grep -rn 'of the words' src"}`, `{"command":"grep -rn  'of the words' src/"}`},
		{`{"query":"what doesn't work"}`, `{"query":"what doesn't work?"}`},
		{"größe 7", "Größe 7"},
	} {
		if n := apart(same[0], same[1]); n != 0 {
			t.Errorf("%q and %q are %d bits apart", same[0], same[1], n)
		}
	}
	const words = "a search for the place in the code where the orders of a customer are counted again"
	if n := apart(words+" 7", words+" now 7"); n > events.NearBits {
		t.Errorf("a word more makes %d bits", n)
	}
	for _, none := range []string{"", "{}", `{"": ""}`} {
		if f := fingerprint.ArgsText([]byte(none)); f != (events.Fingerprint{}) {
			t.Errorf("%q has the fingerprint %v", none, f)
		}
	}
	if f := fingerprint.ArgsText([]byte("42")); f.Algorithm != events.Simhash64 {
		t.Error("a number alone has no fingerprint")
	}
}
