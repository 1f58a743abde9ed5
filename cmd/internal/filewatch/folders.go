package filewatch

import (
	"github.com/fsnotify/fsnotify"
)

// Folders tells when something may have changed in any of a set of folders, where the system
// tells. Make it with NewFolders. Follow is for one goroutine.
// It is for those who look at the folders anyway and want to know how soon: what is told is
// only that something may be different, never what. Changed may be read by any goroutine.
type Folders struct {
	watcher *fsnotify.Watcher // nil when the system tells nothing
	// It holds one value: any number of changes are one reason to look.
	changed chan struct{}
}

// NewFolders watches no folder yet. What is written to files that passed names is not told.
// Passed is asked by a goroutine of Folders. Without a system that tells, nothing is ever
// told, and Follow says so.
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
				// Who reads a file already sees what is written to it by himself.
				if ev.Op == fsnotify.Chmod || ev.Op == fsnotify.Write && passed(ev.Name) {
					continue
				}
			case _, ok := <-w.Errors: // some changes were not told
				if !ok {
					return
				}
			}
			select {
			case f.changed <- struct{}{}:
			// Nobody has taken the last one yet: whoever does will see this change, too.
			default:
			}
		}
	}()
	return f
}

// Changed has a value when something may have changed since the last one was taken.
func (f *Folders) Changed() <-chan struct{} { return f.changed }

// Follow makes these folders the ones that are watched. It reports whether all of them were so
// before: then what has changed since is told.
// A folder that was added only now may have changed before, so its caller has to look once
// more.
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

// Close ends it.
// Its goroutine ends by that. Changed tells nothing any more, and is not closed.
func (f *Folders) Close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
}
