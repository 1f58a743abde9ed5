package limits

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file that has changed is left alone: who writes it may not be done.
const settle = 10 * time.Millisecond

// Watch looks at the file when the system tells that it has changed, and now and then besides,
// because network file systems tell nothing, until ctx ends. An error is one of the log.
func (s *Source) Watch(ctx context.Context) error {
	var changes chan fsnotify.Event
	var faults chan error
	names := map[string]bool{}
	if s.o.File != "" {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			defer w.Close()
			changes, faults = w.Events, w.Errors
			names, err = follow(w, s.o.File)
		}
		if err != nil {
			s.o.Logger.Warn("the system does not tell when the limits change; they are looked at now and then", "file", s.o.File, "every", s.o.Poll, "error", err)
		}
	}
	poll := s.o.Clock.After(s.o.Poll)
	var settled <-chan time.Time
	for {
		select {
		case change := <-changes:
			if names[change.Name] && settled == nil {
				settled = s.o.Clock.After(settle)
			}
			continue
		case <-faults: // some changes were not told
		case <-settled:
			settled = nil
		case <-poll:
			poll = s.o.Clock.After(s.o.Poll)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.mu.Lock()
		err := s.look(false)
		s.mu.Unlock()
		if err != nil && !s.harmless(err) {
			return err
		}
	}
}

// follow has the watcher tell of what may change what is read at path, and returns the names:
// the file, what it is a link to, and the link that Kubernetes turns when a ConfigMap changes.
// Folders are watched and not files, since a file that is replaced is another one.
func follow(w *fsnotify.Watcher, path string) (map[string]bool, error) {
	names := map[string]bool{path: true, filepath.Join(filepath.Dir(path), "..data"): true}
	if err := w.Add(filepath.Dir(path)); err != nil {
		return names, err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || target == filepath.Clean(path) {
		return names, nil
	}
	names[target] = true
	return names, w.Add(filepath.Dir(target))
}
