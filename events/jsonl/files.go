package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsPattern reports whether a path stands for files that come and go: a folder, or a
// name with * ? or [.
func IsPattern(path string) bool {
	if path == "-" {
		return false
	}
	st, err := os.Stat(path)
	if err == nil {
		return st.IsDir()
	}
	return strings.ContainsAny(path, "*?[")
}

// Folder is the folder that all files of a pattern lie in or below.
func Folder(pattern string) string {
	if st, err := os.Stat(pattern); err == nil && st.IsDir() {
		return pattern
	}
	folder := filepath.Dir(pattern)
	for strings.ContainsAny(folder, "*?[") {
		folder = filepath.Dir(folder)
	}
	return folder
}

// Files lists the files that a pattern stands for, in the order of their names: all in a
// folder and below, or those that match. Hidden files are left out, and those that have
// the name of one that was rotated away: a Tail finds them when it needs them.
func Files(pattern string) ([]string, error) {
	if st, err := os.Stat(pattern); err == nil && st.IsDir() {
		return below(pattern)
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range matches {
		st, err := os.Stat(path)
		if err != nil {
			continue // gone meanwhile
		}
		if st.IsDir() {
			inside, err := below(path)
			if err != nil {
				return nil, err
			}
			out = append(out, inside...)
		} else if st.Mode().IsRegular() && !passedOver(filepath.Base(path)) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func below(folder string) (out []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		case d.IsDir() && path != folder && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.Type().IsRegular() && !passedOver(d.Name()):
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

// passedOver is true for hidden files, and for names as rotation gives them: a number
// behind the last dot, or the sign of a copy or a packed file.
func passedOver(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	switch ext {
	case "gz", "zst", "bz2", "xz", "zip", "old", "bak", "tmp", "swp":
		return true
	}
	return ext != "" && strings.Trim(ext, "0123456789") == ""
}
