package logs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a file that is to be read.
type File struct {
	Path     string
	InFolder bool // a folder was named, not the file
}

// isFile tells whether the entry is a file, or a link to one.
func isFile(path string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Expand replaces folders by the files in them and below, in the order of their names,
// and takes links to files for files. Hidden files and folders are passed over.
func Expand(names []string) (out []File, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if name == Stdin || err != nil || !info.IsDir() { // what is wrong is told when it is opened
			out = append(out, File{name, false})
			continue
		}
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			hidden := path != name && strings.HasPrefix(d.Name(), ".")
			switch {
			case err != nil:
				return err
			case d.IsDir() && hidden:
				return filepath.SkipDir
			case !hidden && isFile(path, d):
				out = append(out, File{path, true})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
