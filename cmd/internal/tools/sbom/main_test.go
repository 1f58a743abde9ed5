package main

import (
	"runtime/debug"
	"testing"
)

func TestBillOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Path: "weir/cmd/weir", Settings: []debug.BuildSetting{{Key: "-trimpath", Value: "true"}},
		Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:x"}, {Path: "example.com/b", Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/c", Version: "v0.2.0", Sum: "h1:y"}}}}
	b := billOf(info)
	want := []string{"pkg:golang/std@go1.26.8", "pkg:golang/example.com/a@v1.2.3", "pkg:golang/example.com/c@v0.2.0"}
	if len(b.Components) != len(want) {
		t.Fatalf("%d components, want %d", len(b.Components), len(want))
	}
	for i, c := range b.Components {
		if c.URL != want[i] {
			t.Errorf("component %d is %s, want %s", i, c.URL, want[i])
		}
	}
	if m := b.Metadata.Component; m.Name != "weir/cmd/weir" || len(m.Properties) != 1 {
		t.Errorf("the program is %+v", m)
	}
}
