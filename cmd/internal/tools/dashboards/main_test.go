package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const folder = "../../../../sink/prom/grafana/dashboards"

// TestDashboardsAreGenerated holds the files to what the tool writes, and reads them strictly by
// Grafana's own types: no member that Grafana does not know, none missing that it requires.
func TestDashboardsAreGenerated(t *testing.T) {
	files, err := build()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(paths) != len(files) {
		t.Errorf("%d files, want %d: %v", len(paths), len(files), err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the tool writes: run make update (%v)", name, err)
			continue
		}
		var d dashboard.Dashboard
		if err := strict(got, &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// strict reads a dashboard. The SDK returns an empty list of faults as an error that is not nil.
func strict(text []byte, d *dashboard.Dashboard) error {
	err := d.UnmarshalJSONStrict(text)
	if faults, ok := errors.AsType[cog.BuildErrors](err); ok && len(faults) == 0 {
		return nil
	}
	return err
}

// TestStrictReadingFindsWhatIsWrong holds that the reading above can fail.
func TestStrictReadingFindsWhatIsWrong(t *testing.T) {
	files, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(files["overview.json"], &whole); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(panel map[string]any){
		"an unknown member": func(p map[string]any) { p["colour"] = "red" },
		"a wrong type":      func(p map[string]any) { p["gridPos"].(map[string]any)["w"] = "wide" },
		"no type":           func(p map[string]any) { delete(p, "type") },
	} {
		text, _ := json.Marshal(whole)
		var copied map[string]any
		_ = json.Unmarshal(text, &copied)
		spoil(copied["panels"].([]any)[1].(map[string]any))
		text, _ = json.Marshal(copied)
		if strict(text, new(dashboard.Dashboard)) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
