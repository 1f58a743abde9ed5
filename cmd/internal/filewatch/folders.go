package filewatch

import (
	"github.com/fsnotify/fsnotify"
)

// Folders reports when something may have changed in any of a set of folders, if the system reports
// changes. Make it with NewFolders. Follow is for one goroutine. It is for callers that scan the
// folders anyway and want to do so soon. It reports only that something may be different, never what.
// Any goroutine may read Changed.
type Folders struct {
	watcher *fsnotify.Watcher // nil when the system reports no changes
	// It holds one value: any number of changes are one reason to look.
	changed chan struct{}
}

// NewFolders watches no folder yet. Writes to files for which passed returns true are not reported. A
// goroutine of Folders calls passed. If the system reports no changes, Folders reports none, and
// Follow returns false.
func NewFolders(passed func(path string) bool) *Folders {
	f := &Folders{changed: make(chan struct{}, 1)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return f
	}
	f.watcher = w
	go func() {
		for {
			select {
			case ev, ok := <-w.Events:
				if !ok {
					return
				}
				// A reader of a file already sees by itself what is written to it.
				if ev.Op == fsnotify.Chmod || ev.Op == fsnotify.Write && passed(ev.Name) {
					continue
				}
			case _, ok := <-w.Errors: // some changes were not reported
				if !ok {
					return
				}
			}
			select {
			case f.changed <- struct{}{}:
			// The last one has not been taken yet. Its receiver will see this change, too.
			default:
			}
		}
	}()
	return f
}

// Changed has a value when something may have changed since the last one was taken.
func (f *Folders) Changed() <-chan struct{} { return f.changed }

// Follow makes these folders the ones that are watched. It reports whether all of them were watched
// before: then later changes are reported. A folder that was added only now may have changed before,
// so the caller has to scan once more.
func (f *Folders) Follow(folders map[string]bool) (watchedBefore bool) {
	if f.watcher == nil {
		return false
	}
	watched := make(map[string]bool)
	for _, path := range f.watcher.WatchList() { // without those that were removed, and may be there again
		if watched[path] = true; !folders[path] {
			_ = f.watcher.Remove(path) // it may be gone
		}
	}
	watchedBefore = true
	for path := range folders {
		if !watched[path] {
			watchedBefore = false
			_ = f.watcher.Add(path) // tried again, and looked at often until then
		}
	}
	return watchedBefore
}

// Close ends Folders and its goroutine. Changed reports nothing any more, and is not closed.
func (f *Folders) Close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
}
