package logs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a file that is to be read.
//
// Fault is reported when the file is to be opened, so that one bad entry does not keep a folder from
// being read.
type File struct {
	Path     string
	InFolder bool  // a folder was named, not the file
	Fault    error // why what is in the folder cannot be read; a NotFile where it is no file
}

// NotFile is an entry of a folder that is neither a file nor a folder.
//
// It is an error of its own type, because it needs no fix: a folder may well hold a socket.
type NotFile string

// Error returns what it is.
func (n NotFile) Error() string { return string(n) }

// notFile says why the entry is neither a file nor a link to one; nil when it is.
func notFile(path string, d fs.DirEntry) error {
	mode, isLink := d.Type(), d.Type()&fs.ModeSymlink != 0
	if isLink {
		info, err := os.Stat(path)
		if err != nil {
			return NotFile("a link to nothing")
		}
		mode = info.Mode()
	}
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return NotFile("a link to a folder")
	case mode&fs.ModeNamedPipe != 0:
		return NotFile("a named pipe")
	}
	return NotFile("a device or a socket")
}

// Expand replaces folders by the files in them and below, in the order of their names,
// and takes links to files for files. Hidden files and folders are passed over; of all else
// it is said why it cannot be read.
func Expand(names []string) (out []File, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if name == Stdin || err != nil || !info.IsDir() { // faults are reported when it is opened
			out = append(out, File{Path: name})
			continue
		}
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			hidden := path != name && strings.HasPrefix(d.Name(), ".")
			switch {
			case d.IsDir() && hidden:
				return filepath.SkipDir
			case hidden:
			case err != nil: // a folder that may not be read, of which this is the second word
				out = append(out, File{path, true, err})
			case !d.IsDir():
				out = append(out, File{path, true, notFile(path, d)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
