package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
)

// Progress reports how far a long piece of work has come: on a terminal in one line
// that is overwritten, else with a log line now and then. Short work is not
// reported at all.
//
// It is for one goroutine. It keeps no total: the caller counts and knows which share is done.
type Progress struct {
	env      *Env
	what     string
	start    time.Time
	reported time.Time
	shown    bool
}

const (
	// Work that is done within a second needs no progress. People cannot read more than five
	// updates a second, and a log gets a line every ten seconds.
	progressAfter  = time.Second
	progressEvery  = 200 * time.Millisecond
	progressLogged = 10 * time.Second
)

// Progress begins to report a piece of work that counts in what, such as "events".
func (e *Env) Progress(what string) *Progress {
	now := e.now()
	return &Progress{env: e, what: what, start: now, reported: now}
}

// Elapsed is the time since the work began.
func (p *Progress) Elapsed() time.Duration { return p.env.now().Sub(p.start) }

// At reports that n are done, and that this is the share of all, from 0 to 1. The share is less
// than 0 when it is not known. At may be called at any rate.
func (p *Progress) At(n int64, share float64) {
	if p.env.Quiet {
		return
	}
	now := p.env.now()
	elapsed, silent := now.Sub(p.start), now.Sub(p.reported)
	if !p.env.ErrTerminal {
		if silent >= progressLogged {
			p.reported = now
			args := []any{p.what, n, "per_second", int64(rate(n, elapsed))}
			if share > 0 {
				args = append(args, "done_percent", int(share*100), "left", left(elapsed, share).String())
			}
			p.env.Log.Info("working", args...)
		}
		return
	}
	if elapsed < progressAfter || silent < progressEvery {
		return
	}
	p.reported, p.shown = now, true
	line := fmt.Sprintf("%s %s, %s a second", Grouped(n), p.what, Grouped(int64(rate(n, elapsed))))
	if share > 0 {
		line = fmt.Sprintf("%3.0f %%  %s, %s left", share*100, line, left(elapsed, share))
	}
	_, _ = fmt.Fprintf(p.env.Err, "%s%s", own+wipe, line)
}

// Done wipes the line.
//
// It may be called more than once, and has to be called before anything else is printed on
// standard error.
func (p *Progress) Done() {
	if p.shown {
		_, _ = io.WriteString(p.env.Err, own+wipe)
	}
	p.shown = false
}

func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// left is how long the rest will take if it goes on as it did; share must be above 0.
func left(elapsed time.Duration, share float64) time.Duration {
	return time.Duration(float64(elapsed) * (1 - share) / share).Round(time.Second)
}

// Grouped writes a number with a comma after every three digits.
func Grouped(n int64) string { return humanize.Comma(n) }

// Count writes a number with what it counts.
//
// what is in the singular, and has a plain s in the plural.
func Count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return Grouped(n) + " " + what
}
