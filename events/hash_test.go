package events

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseHash(t *testing.T) {
	f := func(text string, want Hash) {
		t.Helper()
		got, err := ParseHash(text)
		if got != want || (err == nil) != (want != Hash{}) {
			t.Errorf("%s is read as %v, %v; want %v", text, got, err, want)
		}
		if err == nil {
			if again, err := ParseHash(got.String()); again != got || err != nil {
				t.Errorf("%s is written %s and read as %v, %v", text, got, again, err)
			}
		}
	}
	f("xxh64:0123456789abcdef", Hash{XXH64, 0x0123456789abcdef})
	f("sha256:fedcba98765432100000", Hash{SHA256, 0xfedcba9876543210})
	f("sha512:"+strings.Repeat("a", 128), Hash{SHA512, 0xaaaaaaaaaaaaaaaa})
	f("sha512:"+strings.Repeat("a", 129), Hash{})
	f("sha256:0123456789abcde", Hash{})
	f("sha256:0123456789abcdefG", Hash{})
	f("sha257:0123456789abcdef", Hash{})
	f(":0123456789abcdef", Hash{})
	f("0123456789abcdef", Hash{})
	f("", Hash{})
}

func TestParseFingerprint(t *testing.T) {
	f := func(text string, want Fingerprint) {
		t.Helper()
		got, err := ParseFingerprint(text)
		if got != want || (err == nil) != (want != Fingerprint{}) {
			t.Errorf("%s is read as %v, %v; want %v", text, got, err, want)
		}
	}
	f("simhash64:0123456789abcdef", Fingerprint{Simhash64, 0x0123456789abcdef})
	f("simhash64:0123456789abcdef0", Fingerprint{})
	f("simhash64:0123456789abcde", Fingerprint{})
	f("minhash64:0123456789abcdef", Fingerprint{})
	f("simhash64", Fingerprint{})
}

func TestHex16TakesLowerCaseDigitsAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		v := random.Uint64()
		if got, ok := hex16(fmt.Sprintf("%016x", v)); got != v || !ok {
			t.Fatalf("%016x is read as %016x, %v", v, got, ok)
		}
	}
	for c := range 256 {
		for at := range 16 {
			digits := []byte("0123456789abcdef")
			digits[at] = byte(c)
			want := strings.IndexByte("0123456789abcdef", byte(c)) >= 0
			if _, ok := hex16(string(digits)); ok != want {
				t.Errorf("%q: %v, want %v", digits, ok, want)
			}
		}
	}
}
