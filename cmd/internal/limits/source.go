package limits

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/filewatch"
	"weir/events"
	"weir/state"
)

// Options are what a source works with.
// Limits that stand in options never change; those of a file do with the file.
type Options struct {
	File   string          // is read at the start and watched; "" takes Limits
	Limits analyzer.Limits // without a File
	Prices prices.Table    // of the models that the limits do not price; see Priced
	Poll   time.Duration   // how often File is read when no change is reported
	Clock  clock.Clock
	Logger *slog.Logger
}

// Source determines the wanted limits: those of a watched file, or of the options. It only passes them
// to the log; the pump that folds the log puts them in force. Make it with New. Any goroutine may use
// it.
type Source struct {
	o Options

	// looking is held while the file is read and the limits are appended to the log, so that two
	// looks never append in the wrong order. Both may take long: no request waits for it but
	// Reload.
	looking sync.Mutex
	text    []byte                      // of the file, as last looked at
	bad     bool                        // text was refused
	set     string                      // version that was appended to the log last
	log     func(analyzer.Limits) error // nil before Begin

	// mu guards what requests read. Only the holder of looking writes it, and reads it without mu.
	mu     sync.Mutex
	wanted *analyzer.Limits // replaced and never changed, so readers need no copy
	status Status
}

// maxFile bounds a file of limits, in bytes. That of all rules with an override for each of 1000
// agents is smaller.
const maxFile = 16 << 20

// Status is the result of the last reading of the limits. /readyz and /v1/limits show it. OK with an
// old Time means that the file has not changed.
type Status struct {
	OK    bool           `json:"ok"`
	Time  events.RFC3339 `json:"time"`
	Error string         `json:"error,omitempty"`
}

// New reads the limits. An error says what is wrong with them.
// At the start a file that is refused is an error, later a line in the log: to run without
// the limits that were asked for is no start.
func New(o Options) (*Source, error) {
	o.Limits = Priced(o.Limits, o.Prices)
	s := &Source{o: o}
	if o.File == "" {
		s.wanted = &o.Limits
		if err := limitfile.Validate(s.wanted); err != nil {
			return nil, err
		}
		s.note(nil)
		return s, nil
	}
	if err := s.look(true); err != nil {
		return nil, err
	}
	return s, nil
}

// Begin puts the limits into the log, now and whenever they change. set appends them to the log unless
// it has them already. The program calls Begin before the fold begins, so the first event is judged by
// them.
func (s *Source) Begin(set func(analyzer.Limits) error) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.log = set
	if err := s.publish(); !errors.Is(err, state.ErrDiskLow) {
		return err
	}
	return nil // Watch tries again
}

// Reload looks at the file now. What is refused stays as it was.
// The error is what is wrong with the file, or one of the log.
func (s *Source) Reload() error {
	s.looking.Lock()
	defer s.looking.Unlock()
	return s.look(true)
}

// harmless reports whether the error concerns the file alone, or goes away by itself.
// What is not harmless ends the program: a store that has failed takes no events either.
func (s *Source) harmless(err error) bool {
	return !errors.Is(err, state.ErrFailed) && !errors.Is(err, state.ErrClosed)
}

// look reads the file. Nothing is done when it is as it was at the last look, unless
// forced; limits that are refused leave everything as it is.
// The caller holds looking, or is New.
func (s *Source) look(force bool) error {
	path := s.o.File
	if path == "" {
		return s.publish()
	}
	text, err := filewatch.Read(path, maxFile)
	if err == nil && !force && len(text) == 0 { // a writer that replaces the contents of a file empties it first
		err = errors.New("the file is empty; for the default limits write: profile: balanced")
	}
	if err != nil {
		err = fmt.Errorf("read the limits: %w", err)
		// It is logged once, however long the file is away.
		if !force && s.status.Error == err.Error() {
			return err
		}
		s.text = nil
		return s.note(err)
	}
	// Valid limits that the log has not taken yet, because space is short, are published again.
	if !force && bytes.Equal(text, s.text) && (s.bad || s.wanted.Version == s.set) {
		return nil
	}
	s.text = text
	limits, err := limitfile.Parse(path, text)
	limits = Priced(limits, s.o.Prices)
	if err == nil {
		err = limitfile.Validate(&limits)
	}
	if s.bad = err != nil; s.bad {
		return s.note(err)
	}
	s.mu.Lock()
	s.wanted = &limits
	s.mu.Unlock()
	return s.note(s.publish())
}

// note remembers how a look went.
// It returns err. The caller holds looking, or is New.
func (s *Source) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = Status{OK: err == nil, Time: events.RFC3339(events.StampOf(s.o.Clock.Now()))}
	if err != nil {
		s.status.Error = err.Error()
		// Before the first good limits there is nothing to keep: New returns the error, and weir exits.
		if s.wanted != nil {
			s.o.Logger.Error("the limits stay as they were", "file", s.o.File, "error", err)
		}
	}
	return err
}

// publish puts the limits into the log. Limits are identified by version: a file with the same
// contents in other words publishes nothing.
func (s *Source) publish() error {
	if s.log == nil || s.wanted.Version == s.set {
		return nil
	}
	if err := s.log(*s.wanted); err != nil {
		return fmt.Errorf("put the limits into the log: %w", err)
	}
	s.set = s.wanted.Version
	return nil
}

// Current returns the limits that are wanted, which are not to be changed.
// Requests that need the limits in force ask the pumps instead.
func (s *Source) Current() *analyzer.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// State returns the version that is wanted and how the last look went.
func (s *Source) State() (version string, status Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted.Version, s.status
}
