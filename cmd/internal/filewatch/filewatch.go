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

// Settle is how long Watch waits after a file has changed, because its writer may not be done. Editors
// and orchestrators make several changes in a row of what is one to them. A file that is still
// incomplete after that is read again when its last change comes.
const Settle = 10 * time.Millisecond

// Watch calls look when one of the paths may have changed, and every poll, until ctx ends or look
// fails. paths is called again after each look. The goroutine of Watch calls look, which has to find
// out by itself whether anything is different. A reported change may be of another file in the same
// folder, or of nothing. If the system reports no changes, that is a warning; then poll is how late a
// change is seen.
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
		case <-faults: // some changes were not reported
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

// add makes the watcher report what may change the contents at path, and notes the names. These are
// the file, the target of a link, and the link that Kubernetes turns when a ConfigMap changes. Folders
// are watched and not files, because a file that is replaced is another one. The error is that the
// folder cannot be watched, because it does not exist, for example.
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
