// Package filewatch reports that files may have changed, by system notification and by polling.
package filewatch

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"weir/cmd/internal/clock"
)

// Settle is how long a file that has changed is left alone: who writes it may not be done.
// Editors and orchestrators make several changes in a row of what is one to them. One that
// is still half there after that is looked at again when its last change comes.
const Settle = 10 * time.Millisecond

// Watch calls look when one of the paths may have changed, and every poll, until ctx ends or
// look fails. Paths is asked again after each look.
// Look is called by the goroutine of Watch and has to find out by itself whether anything
// is different: a change that is told may be of another file in the same folder, or of
// nothing. A system that tells nothing is a warning; then poll is how late a change is
// seen.
func Watch(ctx context.Context, c clock.Clock, logger *slog.Logger, poll time.Duration, paths func() []string, look func() error) error {
	var changes chan fsnotify.Event
	var faults chan error
	// The error may be that the user has no watches left, for which weir does not end.
	w, err := fsnotify.NewWatcher()
	// Whole folders are watched, so changes of other files come as well.
	names := map[string]bool{}
	follow := func() {
		clear(names)
		for _, path := range paths() {
			if err := add(w, path, names); err != nil {
				logger.Warn("the system does not tell when a file changes; it is looked at now and then", "file", path, "every", poll, "error", err)
			}
		}
	}
	if err != nil {
		logger.Warn("the system does not tell when files change; they are looked at now and then", "every", poll, "error", err)
	} else {
		defer w.Close()
		changes, faults = w.Events, w.Errors
		follow()
	}
	next := c.After(poll)
	var settled <-chan time.Time
	for {
		select {
		case change := <-changes:
			// The first change begins the wait; those that come meanwhile are seen by the
			// same look.
			if names[change.Name] && settled == nil {
				settled = c.After(Settle)
			}
			continue
		case <-faults: // some changes were not told
		case <-settled:
			settled = nil
		case <-next:
			next = c.After(poll)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := look(); err != nil {
			return err
		}
		// What is read may name other files, as an access file names those of tokens.
		if changes != nil && len(paths()) > 0 && !same(names, paths()) {
			follow()
		}
	}
}

// same reports whether all paths are followed.
// More names than paths do no harm: they bring looks that find nothing.
func same(names map[string]bool, paths []string) bool {
	for _, path := range paths {
		if !names[path] {
			return false
		}
	}
	return true
}

// add has the watcher tell of what may change what is read at path, and notes the names: the
// file, what it is a link to, and the link that Kubernetes turns when a ConfigMap changes.
// Folders are watched and not files, since a file that is replaced is another one.
// The error is that the folder cannot be watched, because it is not there, for example.
func add(w *fsnotify.Watcher, path string, names map[string]bool) error {
	names[path], names[filepath.Join(filepath.Dir(path), "..data")] = true, true
	if err := w.Add(filepath.Dir(path)); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || target == filepath.Clean(path) {
		return nil
	}
	names[target] = true
	return w.Add(filepath.Dir(target))
}
