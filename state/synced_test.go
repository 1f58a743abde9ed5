package state

import "testing"

// TestWritesAreSynced holds that a store on disk waits until its writes are there. A process
// that is killed does not show that, since the system writes what is left; only a loss of
// power would.
func TestWritesAreSynced(t *testing.T) {
	if !(Options{}).badger(t.TempDir()).SyncWrites {
		t.Error("the store does not sync its writes")
	}
}
