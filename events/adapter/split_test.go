package adapter_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// parts takes a recording apart into the smallest records that its format knows.
func parts(t testing.TB, file string) (format string, out []string) {
	t.Helper()
	raw := unpacked(t, file)
	f, err := registry.Detect(raw[:min(len(raw), adapter.HeadSize)])
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	switch {
	case f.Name == "otlp":
		return f.Name, spans(t, raw)
	case strings.HasSuffix(file, ".jsonl"):
		return f.Name, strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
	return f.Name, []string{string(raw)}
}

// set returns the output of a reader, by id.
func set(t testing.TB, in ...[]string) map[string]string {
	t.Helper()
	got := hear(t, strings.NewReader(strings.Join(slices.Concat(in...), "\n")), adapter.Options{})
	out := map[string]string{}
	for i := range got.events {
		if id := got.events[i].ID; out[id] == "" { // what comes again is dropped
			out[id] = string(got.events[i].AppendJSON(nil))
		}
	}
	return out
}

func differences(want, got map[string]string) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] != want[id] {
			out = append(out, fmt.Sprintf("- %s\n+ %s\n", want[id], got[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if want[id] == "" {
			out = append(out, fmt.Sprintf("+ %s\n", got[id]))
		}
	}
	return strings.Join(out, "")
}

func recordings(t testing.TB) (out []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/real/*/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(f), "testdata/real/"), ".gz"))
	}
	return out
}

// TestRepeatedBatches holds that a recording, split in any two batches that are delivered
// in order and again, gives the same events with the same ids.
func TestRepeatedBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, file := range recordings(t) {
		format, records := parts(t, file)
		if format == "messages" {
			continue // lines with neither ids nor times: one that comes again is one more
		}
		want := set(t, records)
		for range 2 {
			k := r.IntN(len(records) + 1)
			a, b := records[:k], records[k:]
			f := func(how string, in ...[]string) {
				t.Helper()
				if d := differences(want, set(t, in...)); d != "" {
					t.Errorf("%s, split before record %d, as %s:\n%s", file, k, how, d)
				}
			}
			f("a b a", a, b, a)
			f("a b a b", a, b, a, b)
			f("a b b", a, b, b)
			if format != "autogen" {
				// Its tool calls and requests have neither ids nor times. So a repeated record before
				// its successor looks like a new call.
				f("a a b b", a, a, b, b)
			}
		}
	}
}

// TestOvertakenBatches holds that the events are complete when a later batch of spans comes
// first. Hops and tool calls are the same, though some are late, and all tokens count once.
func TestOvertakenBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, file := range recordings(t) {
		format, records := parts(t, file)
		if format != "otlp" && format != "openaiagents" && format != "langsmith" {
			continue // the others are logs in the order in which things happened
		}
		want := hear(t, strings.NewReader(strings.Join(records, "\n")), adapter.Options{})
		for n := range 12 {
			mixed := slices.Clone(records)
			if n < 8 {
				k := r.IntN(len(records) + 1)
				mixed = slices.Concat(records[k:], records[:k])
			} else {
				r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			}
			got := hear(t, strings.NewReader(strings.Join(mixed, "\n")), adapter.Options{})
			within := func(what string, got, want, less, more int) {
				t.Helper()
				if got < want-less || got > want+more {
					t.Errorf("%s, order %d: %d %s, want %d", file, n, got, what, want)
				}
			}
			// At the place where the batches were split an agent may be emitted as called by
			// another agent, or by the user.
			within("hops", len(got.hops), len(want.hops), 2, 2)
			within("messages of users", got.users, want.users, 0, 1)
			within("tool calls", len(got.args), len(want.args), 0, 2)
			within("tokens", int(got.tokens), int(want.tokens), 0, int(want.tokens)/100)
		}
	}
}

// sample returns a file below testdata as it was written.
func sample(t testing.TB, file string) []byte {
	t.Helper()
	if name, ok := strings.CutPrefix(file, "real/"); ok {
		return unpacked(t, strings.TrimSuffix(name, ".gz"))
	}
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
