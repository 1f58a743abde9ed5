package simulate

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFaultsApply holds that the planted faults can still be planted. make mutants plants them.
func TestFaultsApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) < 50 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		apply := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("cmd/internal/simulate", patch))
		apply.Dir = "../../.."
		if out, err := apply.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", patch, err, out)
		}
	}
}
