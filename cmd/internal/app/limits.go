package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
	"weir/state"
)

// limitsSource is where the limits of the embedded form come from: a file that is
// watched, or the options. What it finds goes into the log as limits.set, so that
// a refold judges each event by the limits of its time; the pump alone puts it in force.
type limitsSource struct {
	app *App

	mu     sync.Mutex
	text   []byte // of the file, as last looked at
	bad    bool   // text was refused
	wanted analyzer.Limits
	set    string // version that the log was told last
	status ReloadStatus
}

// ReloadStatus is how the last reading of the limits went.
type ReloadStatus struct {
	OK    bool           `json:"ok"`
	Time  events.RFC3339 `json:"time"`
	Error string         `json:"error,omitempty"`
}

func newLimitsSource(a *App) (*limitsSource, error) {
	s := &limitsSource{app: a, wanted: a.o.Limits}
	if a.o.LimitsFile == "" {
		if err := s.wanted.Validate(); err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
		s.note(nil)
		return s, nil
	}
	if err := s.look(true); err != nil {
		return nil, err
	}
	return s, nil
}

// begin tells the log of the limits when it does not know them yet.
func (s *limitsSource) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.tell(); !errors.Is(err, state.ErrDiskLow) {
		return err
	}
	return nil // watch tries again
}

// watch looks at the file again and again.
func (s *limitsSource) watch(ctx context.Context) error {
	for {
		if err := s.app.pause(ctx, s.app.o.LimitsPoll); err != nil {
			return err
		}
		s.mu.Lock()
		err := s.look(false)
		s.mu.Unlock()
		if err != nil && !s.harmless(err) {
			return err
		}
	}
}

// reload looks at the file now.
func (s *limitsSource) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(true)
}

// harmless reports whether the error concerns the file alone, or goes away by itself.
func (s *limitsSource) harmless(err error) bool {
	return !errors.Is(err, state.ErrFailed) && !errors.Is(err, state.ErrClosed)
}

// look reads the file. Nothing is done when it is as it was at the last look, unless
// forced; limits that are refused leave everything as it is.
func (s *limitsSource) look(force bool) error {
	path := s.app.o.LimitsFile
	if path == "" {
		return s.tell()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		err = fmt.Errorf("read the limits: %w", err)
		if !force && s.status.Error == err.Error() {
			return err
		}
		s.text = nil
		return s.note(err)
	}
	if !force && bytes.Equal(text, s.text) && (s.bad || s.wanted.Version == s.set) {
		return nil
	}
	s.text = text
	limits, err := limitfile.Parse(path, text)
	if s.bad = err != nil; s.bad {
		return s.note(err)
	}
	s.wanted = limits
	return s.note(s.tell())
}

// note remembers how a look went.
func (s *limitsSource) note(err error) error {
	a := s.app
	s.status = ReloadStatus{OK: err == nil, Time: events.RFC3339(events.StampOf(a.clock.Now()))}
	if err != nil {
		s.status.Error = err.Error()
		a.logger.Error("the limits stay as they were", "file", a.o.LimitsFile, "error", err)
	}
	return err
}

// tell puts the limits into the log.
func (s *limitsSource) tell() error {
	form := s.app.form
	if form == nil || s.wanted.Version == s.set {
		return nil
	}
	if err := form.SetLimits(s.wanted); err != nil {
		return fmt.Errorf("put the limits into the log: %w", err)
	}
	s.set = s.wanted.Version
	return nil
}

// current returns the limits that are wanted.
func (s *limitsSource) current() analyzer.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// state returns the version that is wanted and how the last look went.
func (s *limitsSource) state() (version string, status ReloadStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted.Version, s.status
}
