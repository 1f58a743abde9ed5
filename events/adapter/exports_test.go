package adapter_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/events/adapter"
)

// TestExports reads what programs export that keep runs: a loop and an honest run each.
func TestExports(t *testing.T) {
	files, err := filepath.Glob("testdata/exports/*/*.gz")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d exports (%v)", len(files), err)
	}
	for _, file := range files {
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		got := hear(t, bytes.NewReader(raw), adapter.Options{})
		checkLaws(t, file, got)
		isLoop, calls := strings.Contains(filepath.Base(file), "loop"), 3
		if isLoop {
			calls = 12
		}
		order, _ := strictest(got.events)
		if len(got.faults) > 0 || len(got.flows) != 1 || len(got.tools) != calls {
			t.Errorf("%s: %d flows, %d calls of tools, faults %q; want 1 and %d", file, len(got.flows), len(got.tools), got.faults, calls)
		}
		if stopped := strings.HasPrefix(order, "deny") || strings.HasPrefix(order, "halt"); stopped != isLoop || !isLoop && order != "" {
			t.Errorf("%s: %q", file, order)
		}
	}
}
