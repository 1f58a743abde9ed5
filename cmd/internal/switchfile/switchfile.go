// Package switchfile reads the settings of the switch (weir stop): second signatures, drills, runtimes to
// notify, and approvals.
package switchfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/analyzer/strictyaml"
	"weir/events"
	"weir/events/byhand"
	"weir/sink/recipient"
)

// Settings are what a file says. The zero Settings is that of no file.
type Settings struct {
	// TwoPersons are kinds of scopes of which a stop needs two persons, and SecondWithin is how long
	// the first waits for the second.
	TwoPersons   []events.ScopeKind `yaml:"two-persons"`
	SecondWithin time.Duration      `yaml:"second-within"`
	Drills       []Drill            `yaml:"drills"`
	Runtimes     []Runtime          `yaml:"runtimes"`
	// Approvals say how persons are asked about holds; nil asks none.
	Approvals *Approvals `yaml:"approvals"`
}

// Drill throws the switch in shadow again and again.
type Drill struct {
	Scope byhand.Scope  `yaml:"scope"`
	Every time.Duration `yaml:"every"`
}

// Runtime is a program that runs agents and that cancels their work when weir requests it.
type Runtime struct {
	Name string `yaml:"name"`
	// Agent is a pattern of the agents that it runs; "" means all.
	Agent string `yaml:"agent"`
	// URLFile holds the URL, or URL is it.
	URL     string `yaml:"url"`
	URLFile string `yaml:"url-file"`
	// SecretFile holds the key of the signatures.
	SecretFile string `yaml:"secret-file"`

	Secret []byte `yaml:"-"` // of SecretFile
}

// The bounds of a file.
const (
	maxRuntimes = 100
	maxDrills   = 32
	minSecret   = 16 // bytes
	minEvery    = time.Minute
	minSecond   = time.Second
	maxSecond   = 24 * time.Hour
)

// Read reads a file and the files that it names, which are relative to its folder. "" has no settings.
func Read(path string) (*Settings, error) {
	s := new(Settings)
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &strictyaml.Problems{Name: path}
	docs := strictyaml.Documents(text, 0, p)
	if len(docs) > 1 {
		p.Add(strictyaml.Problem{Line: docs[1].Line, Column: docs[1].Column, Message: "a second document begins", Hint: "write all settings in one"})
	}
	if len(docs) > 0 {
		(&form{p}).mapping("", docs[0])
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if len(docs) > 0 {
		if err := docs[0].Decode(s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := s.check(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *Settings) check(dir string) error {
	if len(s.Runtimes) > maxRuntimes {
		return fmt.Errorf("it has %d runtimes; want at most %d", len(s.Runtimes), maxRuntimes)
	}
	if s.SecondWithin != 0 && (s.SecondWithin < minSecond || s.SecondWithin > maxSecond) {
		return fmt.Errorf("second-within is %v; want from %v to %v", s.SecondWithin, minSecond, maxSecond)
	}
	if len(s.Drills) > maxDrills {
		return fmt.Errorf("it has %d drills; want at most %d", len(s.Drills), maxDrills)
	}
	for i, d := range s.Drills {
		if d.Scope.Kind == "" {
			return fmt.Errorf("drills[%d]: scope is missing, such as all", i)
		}
		if d.Every < minEvery {
			return fmt.Errorf("drills[%d]: every is %v; want at least %v, such as 24h", i, d.Every, minEvery)
		}
	}
	seen := make(map[string]bool)
	for i := range s.Runtimes {
		r := &s.Runtimes[i]
		if err := r.check(dir); err != nil {
			return fmt.Errorf("runtimes[%d]: %w", i, err)
		}
		if seen[r.Name] {
			return fmt.Errorf("runtimes[%d]: name %q is used twice", i, r.Name)
		}
		seen[r.Name] = true
	}
	if s.Approvals != nil {
		if err := s.Approvals.check(dir); err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
	}
	return nil
}

func (r *Runtime) check(dir string) (err error) {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Agent == "" {
		r.Agent = "*"
	}
	if _, err := byhand.ParseScope("agent:" + r.Agent); err != nil {
		return err
	}
	if r.URL, err = oneOf(dir, "url", r.URL, r.URLFile); err != nil {
		return err
	}
	if r.Secret, err = secret(dir, r.SecretFile); err != nil {
		return err
	}
	return nil
}

// checkName looks at the name of a runtime or of a tier.
func checkName(name string) error {
	if name == "" || len(name) > events.MaxID || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' }) {
		return fmt.Errorf("name %q: want up to %d bytes without spaces", name, events.MaxID)
	}
	return nil
}

// oneOf returns the URL that is given itself or in a file.
func oneOf(dir, name, url, file string) (string, error) {
	if (url == "") == (file == "") {
		return "", fmt.Errorf("want either %s or %s-file", name, name)
	}
	if file != "" {
		text, err := read(dir, file)
		if err != nil {
			return "", err
		}
		url = string(text)
	}
	if _, err := recipient.Parse(url); err != nil {
		return "", err
	}
	return url, nil
}

// secret reads the key of signatures. Without one a receiver cannot distinguish weir from others.
func secret(dir, file string) ([]byte, error) {
	if file == "" {
		return nil, errors.New("secret-file is missing: requests to cancel are signed")
	}
	text, err := read(dir, file)
	if err != nil {
		return nil, err
	}
	if len(text) < minSecret {
		return nil, fmt.Errorf("%s has %d bytes; want at least %d", file, len(text), minSecret)
	}
	return text, nil
}

// read returns the text of a file, which is relative to a folder, without spaces around it.
func read(dir, file string) ([]byte, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	return bytes.TrimSpace(text), err
}
