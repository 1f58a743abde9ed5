package fingerprint_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/fingerprint"
)

func TestText(t *testing.T) {
	of := func(s string) events.Fingerprint { return fingerprint.Text([]byte(s)) }
	distance := func(a, b string) int { return bits.OnesCount64(of(a).Value ^ of(b).Value) }

	if got := of("  .,;-\n"); !got.IsZero() {
		t.Errorf("a text without words has the fingerprint %v, want none", got)
	}
	if a, b := of("Hello, World! ÄÖ"), of("hello world äö"); a != b || a.IsZero() {
		t.Errorf("case and punctuation change the fingerprint: %v, %v", a, b)
	}
	if of("a b") == of("b a") {
		t.Error("the order of words does not change the fingerprint")
	}

	var page, other []string
	for i := range 300 {
		page = append(page, fmt.Sprintf("word%d", i*i%97))
		other = append(other, fmt.Sprintf("term%d", i*i%89))
	}
	text := strings.Join(page, " ")
	nearly := strings.Replace(text, "word4 ", "changed ", 1)
	if d := distance(text, nearly); d > 12 || !of(text).Near(of(nearly)) {
		t.Errorf("one word of 300 changes %d bits", d)
	}
	if d := distance(text, strings.Join(other, " ")); d < 20 {
		t.Errorf("unrelated texts differ in %d bits only", d)
	}

	// Words beyond the first 1,500 do not count.
	long := strings.Repeat("alpha beta gamma ", 500)
	if of(long) != of(long+"delta epsilon") {
		t.Error("the word 1,501 changes the fingerprint")
	}
	if of(long) == of("delta "+long) {
		t.Error("the first word does not change the fingerprint")
	}
}

// TestTextGolden pins the algorithm: fingerprints lie in logs and must not change.
func TestTextGolden(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := fingerprint.Text([]byte(text)).String(); got != want {
			t.Errorf("fingerprint of %q is %s, want %s", text, got, want)
		}
	}
	f("pending", "simhash64:2824be589c338089")
	f("Order A-17 is pending.", "simhash64:0ca88c5ba91e067b")
}

// TestTextByDefinition compares with the definition written down plainly.
func TestTextByDefinition(t *testing.T) {
	plain := func(words []string) uint64 {
		var counts [64]int
		add := func(feature string) {
			for b, h := 0, xxhash.Sum64String(feature); b < 64; b++ {
				counts[b] += int(h>>b&1)*2 - 1
			}
		}
		for i, w := range words {
			add(w)
			if i > 0 {
				add(words[i-1] + " " + w)
			}
		}
		out := uint64(0)
		for b, n := range counts {
			if n > 0 {
				out |= 1 << b
			}
		}
		return out
	}
	var words []string
	for i := range 1500 {
		words = append(words, fmt.Sprintf("w%d", i%(7+i/100)))
		text := strings.Join(words, " ")
		if i%50 == 0 || i > 1490 {
			if got, want := fingerprint.Text([]byte(text)).Value, plain(words); got != want {
				t.Fatalf("%d words: %x, want %x", len(words), got, want)
			}
		}
	}
}

func BenchmarkText(b *testing.B) {
	run := func(name, text string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				fingerprint.Text([]byte(text))
			}
		})
	}
	run("short", "Order A-17 is pending since yesterday.")
	run("1500words", strings.Repeat("the quick brown fox jumps over lazy dogs ", 200))
}
