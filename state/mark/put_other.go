//go:build !linux

package mark

import "os"

// put writes b at the beginning of a file.
func put(file *os.File, b []byte) error {
	_, err := file.WriteAt(b, 0)
	return err
}
