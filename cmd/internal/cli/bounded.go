package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// What others send may come into a log, and how long it is and how often is theirs to
// choose. These bound it on all ways into the log, since they stand at its end.
const (
	logText  = 1 << 10  // bytes of a text
	logStack = 16 << 10 // of a stack, which is weir's own
	// logBurst warnings and errors of one message come through at once, and after them
	// logRate a second. How many were left out stands in the next that comes through.
	logBurst, logRate = 20, 10
	logCauses         = 1 << 10 // messages that are counted separately
)

// bounded is a handler of log lines that bounds their length and their number.
//
// It wraps the handler of the format. Handlers made of it by With share one count, or a
// logger that carries attributes would have a burst of its own.
type bounded struct {
	slog.Handler
	causes *causes
}

// newBounded returns a handler before h that has seen no line.
func newBounded(h slog.Handler) slog.Handler {
	return &bounded{h, &causes{all: make(map[string]*cause)}}
}

// Handle passes a line on, cut to what may be long.
func (b *bounded) Handle(ctx context.Context, r slog.Record) error {
	leftOut := 0
	// What is no warning is written because of something that weir did itself, orders of
	// persons among it, and is never left out.
	if r.Level >= slog.LevelWarn {
		var ok bool
		if leftOut, ok = b.causes.take(r.Message, r.Time); !ok {
			return nil
		}
	}
	// A new record: that of the caller may be shared with other handlers and must not be
	// changed.
	out := slog.NewRecord(r.Time, r.Level, cutText(r.Message, logText), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cutAttr(a))
		return true
	})
	if leftOut > 0 {
		out.AddAttrs(slog.Int("left_out", leftOut))
	}
	return b.Handler.Handle(ctx, out)
}

// WithAttrs returns a handler whose lines have these attributes.
func (b *bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	cut := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cut[i] = cutAttr(a)
	}
	return &bounded{b.Handler.WithAttrs(cut), b.causes}
}

// WithGroup returns a handler whose attributes are in a group.
func (b *bounded) WithGroup(name string) slog.Handler {
	return &bounded{b.Handler.WithGroup(name), b.causes}
}

// Values of any kind are written as text before they are measured, errors among them,
// because only the text has a length.
func cutAttr(a slog.Attr) slog.Attr {
	most := logText
	if a.Key == "stack" {
		most = logStack
	}
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, cutText(v.String(), most))
	case slog.KindAny:
		return slog.String(a.Key, cutText(fmt.Sprint(v.Any()), most))
	case slog.KindGroup:
		var in []slog.Attr
		for _, m := range v.Group() {
			in = append(in, cutAttr(m))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(in...)}
	}
	return a
}

// cutText cuts a longer text to most bytes and adds its full length. It may cut within a
// character, which the writer behind it quotes.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
}

// causes counts lines by their message.
//
// Any goroutine may log, so they are behind a lock.
type causes struct {
	mu  sync.Mutex
	all map[string]*cause
}

// cause is one message: how much of its burst is spent, which comes back with time, and how
// many lines were left out since one came through.
type cause struct {
	spent   float64 // of logBurst
	at      time.Time
	leftOut int
}

// take reports whether a line may come through, and how many before it did not.
func (c *causes) take(message string, now time.Time) (leftOut int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.all[message]
	if s == nil {
		if len(c.all) == logCauses { // messages are constants, or nearly so: this many are none of ours
			message = ""
			s = c.all[message]
		}
		if s == nil {
			s = &cause{at: now}
			c.all[message] = s
		}
	}
	// A clock that goes back gives nothing back, and takes nothing.
	if passed := now.Sub(s.at).Seconds(); passed > 0 {
		s.spent = max(0, s.spent-passed*logRate)
	}
	s.at = now
	if s.spent+1 > logBurst {
		s.leftOut++
		return 0, false
	}
	s.spent++
	leftOut, s.leftOut = s.leftOut, 0
	return leftOut, true
}
