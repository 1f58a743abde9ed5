//go:build !linux

package ahead

import "os"

// openSynced opens a file of which a write is on the disk when it returns.
func openSynced(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_SYNC, 0o600)
}
