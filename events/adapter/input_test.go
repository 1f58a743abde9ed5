package adapter_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// TestInputsAreApart gives one adapter the halves of inputs as requests of their own, between
// those of another sender. The other sender's events are the same as alone.
func TestInputsAreApart(t *testing.T) {
	compared := 0
	for _, format := range registry.Formats() {
		inputs, err := filepath.Glob(filepath.Join("testdata", "golden", format.Name, "*.in"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range inputs {
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, branches := format.New(adapter.Options{}).(adapter.Branching); !branches {
				continue // its records are whole
			}
			want := wholeTold(format.New(adapter.Options{}), body)
			compared += len(want)
			lines := bytes.Split(body, []byte("\n"))
			for cut := range lines {
				half := bytes.ReplaceAll(bytes.Join(lines[:cut], []byte("\n")), []byte("0199f971"), []byte("ffffffff"))
				shared := format.New(adapter.Options{})
				_ = adapter.DecodeWhole(shared, half, func(*events.Event) {})
				if cut > 0 {
					last := bytes.ReplaceAll(lines[cut-1], []byte("0199f971"), []byte("ffffffff"))
					_ = adapter.DecodeWhole(shared, last, func(*events.Event) {})
				}
				have := wholeTold(shared, body)
				for _, line := range want {
					if !strings.Contains(fmt.Sprint(have), line) {
						t.Fatalf("%s: after the first %d lines of somebody else it does not tell %s", path, cut, line)
					}
				}
			}
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// wholeTold returns the ids that an adapter emits for a body that comes as one request.
func wholeTold(a adapter.Adapter, body []byte) (ids []string) {
	emit := func(ev *events.Event) { ids = append(ids, ev.ID) }
	_ = adapter.DecodeWhole(a, body, emit)
	_ = a.Flush(emit)
	return ids
}
