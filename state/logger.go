package state

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger hands Badger's messages to slog: what Badger finds worth an error or a
// warning as warnings, because the caller learns of errors by return values, and
// the rest for debugging.
type logger struct{ to *slog.Logger }

func (l logger) Errorf(format string, args ...any) {
	l.to.Warn(message(format, args), "from", "badger")
}
func (l logger) Warningf(format string, args ...any) {
	l.to.Warn(message(format, args), "from", "badger")
}
func (l logger) Infof(format string, args ...any) {
	l.to.Debug(message(format, args), "from", "badger")
}
func (l logger) Debugf(format string, args ...any) {} // one for each write

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
