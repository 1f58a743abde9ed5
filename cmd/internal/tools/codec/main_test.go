package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCodecsAreGenerated holds that the generated files are what the tables give.
func TestCodecsAreGenerated(t *testing.T) {
	for _, f := range files {
		want, err := f.source()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../../../..", f.path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the table of fields gives (%v): run go generate ./analyzer", f.path, err)
		}
	}
}
