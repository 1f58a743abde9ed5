package limits

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/filewatch"
)

// TestWatchIsTold changes the file in the ways in which files of limits are changed. The file is read
// only after a reported change: the time of the next poll never comes.
func TestWatchIsTold(t *testing.T) {
	const first, second = "rules: {max_total_calls: 7}\n", "rules: {max_total_calls: 9}\n"
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(what string, set func(dir string) string, change func(dir string) error) {
		t.Helper()
		dir := t.TempDir()
		path := set(dir)
		fake := clock.NewFake()
		s, err := New(Options{File: path, Poll: time.Hour, Clock: fake, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		given := make(chan analyzer.Limits, 8)
		if err := s.Begin(func(l analyzer.Limits) error { given <- l; return nil }); err != nil {
			t.Fatal(err)
		}
		if l := <-given; l.Rules[analyzer.RuleTotalCalls].Limit() != 7 {
			t.Fatalf("%s: the limit was %d", what, l.Rules[analyzer.RuleTotalCalls].Limit())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Watch(ctx) }()
		<-fake.Asked() // it watches
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			select {
			case l := <-given:
				if l.Rules[analyzer.RuleTotalCalls].Limit() != 9 {
					t.Errorf("%s: the limit is %d", what, l.Rules[analyzer.RuleTotalCalls].Limit())
				}
				done = true
			case <-fake.Asked():
				fake.Advance(filewatch.Settle)
			}
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(what, err)
		}
	}
	plain := func(dir string) string {
		path := filepath.Join(dir, "limits.yaml")
		write(path, first)
		return path
	}
	f("written anew", plain, func(dir string) error { write(filepath.Join(dir, "limits.yaml"), second); return nil })
	f("replaced, as editors do", plain, func(dir string) error {
		write(filepath.Join(dir, "new"), second)
		return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "limits.yaml"))
	})
	f("a ConfigMap", func(dir string) string {
		for folder, text := range map[string]string{"..1": first, "..2": second} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
			write(filepath.Join(dir, folder, "limits.yaml"), text)
		}
		for link, to := range map[string]string{"..data": "..1", "limits.yaml": "..data/limits.yaml"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, "limits.yaml")
	}, func(dir string) error {
		if err := os.Symlink("..2", filepath.Join(dir, "..tmp")); err != nil {
			return err
		}
		return os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))
	})
}

// TestFirstLimitsAreNotKept holds that a file that is refused at the start is returned as an error, and
// that no line of the log says that older limits stay.
func TestFirstLimitsAreNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	var said strings.Builder
	o := Options{File: path, Clock: clock.NewFake(), Logger: slog.New(slog.NewTextHandler(&said, nil))}
	if _, err := New(o); err == nil || said.Len() > 0 {
		t.Errorf("without the file: %v, logged %q", err, said.String())
	}
	if err := os.WriteFile(path, []byte("rules: {max_total_cals: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil || said.Len() > 0 {
		t.Errorf("with an unknown rule: %v, logged %q", err, said.String())
	}
}
