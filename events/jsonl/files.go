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
// the name of one that was rotated away: a Tail finds them when it needs them. The latter
// are the second list, so that nobody waits in silence for what a packed file has.
func Files(pattern string) (out, rotated []string, err error) {
	matches := []string{pattern}
	if st, err := os.Stat(pattern); err != nil || !st.IsDir() {
		if matches, err = filepath.Glob(pattern); err != nil {
			return nil, nil, err
		}
	}
	add := func(path string) {
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "."):
		case wasRotated(name):
			rotated = append(rotated, path)
		default:
			out = append(out, path)
		}
	}
	for _, path := range matches {
		st, err := os.Stat(path)
		if err != nil {
			continue // gone meanwhile
		}
		if st.IsDir() {
			if err := below(path, add); err != nil {
				return nil, nil, err
			}
		} else if st.Mode().IsRegular() {
			add(path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), rotated, nil
}

func below(folder string, add func(path string)) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		case d.IsDir() && path != folder && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.Type().IsRegular():
			add(path)
		}
		return nil
	})
}

// wasRotated is true for names as rotation gives them: a number behind the last dot, or
// the sign of a copy or a packed file.
func wasRotated(name string) bool {
	if strings.HasSuffix(name, "~") {
		return true
	}
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	switch ext {
	case "gz", "zst", "bz2", "xz", "zip", "old", "bak", "tmp", "swp":
		return true
	}
	return ext != "" && strings.Trim(ext, "0123456789") == ""
}
