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
//
// What is there decides first: a file may well have a bracket in its name.
func IsPattern(path string) bool {
	// The standard input.
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
//
// Who watches for new files watches it.
func Folder(pattern string) string {
	if st, err := os.Stat(pattern); err == nil && st.IsDir() {
		return pattern
	}
	folder := filepath.Dir(pattern)
	// Up to where no part of the name is a pattern.
	for strings.ContainsAny(folder, "*?[") {
		folder = filepath.Dir(folder)
	}
	return folder
}

// Files lists the files of a pattern by name: all in a folder and below, or those that
// match. Hidden files are left out, and so are files named like a rotated one: a Tail finds
// them when it needs them. These are the second list, so that a packed file does not go
// unnoticed.
//
// It is called repeatedly while logs are followed, so files that vanish in between are no
// error. The error is about unreadable folders; all others are listed.
func Files(pattern string) (out, rotated []string, err error) {
	matches := []string{pattern}
	if st, err := os.Stat(pattern); err != nil || !st.IsDir() {
		if matches, err = filepath.Glob(pattern); err != nil {
			// The only error of Glob is a pattern that is none.
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
	// A pattern may match folders, which are walked as well.
	for _, path := range matches {
		st, gone := os.Stat(path)
		if gone != nil {
			continue // meanwhile
		}
		if st.IsDir() {
			err = errors.Join(err, below(path, add))
		} else if st.Mode().IsRegular() {
			// Pipes and devices are followed only if they are named themselves.
			add(path)
		}
	}
	slices.Sort(out)
	// A folder and a file in it may both match.
	return slices.Compact(out), rotated, err
}

// below walks a folder. Hidden folders are left out, but not the one that was asked for. The
// error names folders that cannot be read, as one lost+found of root's among those of others.
func below(folder string, add func(path string)) (unread error) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			unread = errors.Join(unread, err)
			return nil // the others are walked
		case d.IsDir() && path != folder && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		// Links are not followed: they could lead round in circles, or out of the folder.
		case d.Type().IsRegular():
			add(path)
		}
		return nil
	})
	return unread
}

// wasRotated is true for names as rotation gives them: a number behind the last dot, or
// the sign of a copy or a packed file.
//
// Packed files cannot be followed, as they never grow; copies would be read a second time.
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
