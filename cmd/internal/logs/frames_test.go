package logs

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestCollectorFiles reads what the Collector's file exporter wrote of the same spans as JSON, as
// protobuf, and as compressed JSON: all give the same events.
func TestCollectorFiles(t *testing.T) {
	read := func(name string, raw []byte) (told []string, faults []string) {
		t.Helper()
		in, err := From(name, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Recognize(""); err != nil || in.Format.Name != "otlp" {
			t.Fatalf("%s: %s, %v", name, in.Format.Name, err)
		}
		err = adapter.Read(in.Body(), in.Format, in.Format.New(adapter.Options{}), func(ev *events.Event) {
			told = append(told, ev.ID+" "+ev.Content.String())
		}, func(f adapter.Fault) { faults = append(faults, f.Error()) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return told, faults
	}
	file := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want, _ := read("collector.json", file("collector.json"))
	framed := file("collector.pb")
	for _, name := range []string{"collector.pb", "collector.json.zst"} {
		if got, faults := read(name, file(name)); len(want) < 4 || len(faults) > 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %q; want %q", name, got, faults, want)
		}
	}
	// A file that is still written ends within a message: whole messages are read, and the rest is
	// reported.
	if got, faults := read("cut", framed[:len(framed)-9]); len(got) == 0 || len(faults) != 1 || !strings.HasPrefix(faults[0], "line 4") {
		t.Errorf("cut: %q, %q", got, faults)
	}
	// A single message, as the body of a request.
	n := binary.BigEndian.Uint32(framed)
	if got, faults := read("body", framed[4:4+n]); len(got) == 0 || len(faults) > 0 {
		t.Errorf("body: %q, %q", got, faults)
	}
	// A file that only begins like that.
	if _, err := From("odd", strings.NewReader("\x00\x00\x00\x05hello")); err != nil {
		t.Error(err)
	} else if r, _ := unframed(strings.NewReader("\x00\x00\x00\x05hello")); r != nil {
		if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "message 1") {
			t.Errorf("odd: %v", err)
		}
	}
}
