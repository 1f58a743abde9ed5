//go:build !linux

package state

import (
	"errors"
	"os"
	"syscall"
)

// datasync waits until what was written to a write-ahead log is on the disk.
func datasync(log *os.File) error { return log.Sync() }

// place is a path that is looked at again and again.
type place struct{ path string }

func newPlace(path string) *place { return &place{path} }

// file says which file is there.
func (p *place) file() (fileID, error) { return statFile(p.path) }

// statfs asks how much room there is below path.
func statfs(path string) (st syscall.Statfs_t, err error) { return st, syscall.Statfs(path, &st) }

// setAside is for Linux alone; elsewhere there is no reserve against other programs.
func setAside(*os.File, int64, int64) error { return errors.ErrUnsupported }
