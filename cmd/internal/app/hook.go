package app

import (
	"context"
	"net/http"

	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// hookRoutes are those of the hooks of coding agents.
func (a *App) hookRoutes() []route {
	hook := check.NewHook(a.timedAsk(prom.RouteHook), a.appendLines, func(err error) {
		a.logger.Warn("a hook was not answered as it should be", "error", err)
	}, a.clock.Now)
	return []route{
		{"POST", check.HookPath, intake, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			hook.ServeHTTP(w, r)
			return nil
		})},
	}
}

// appendLines puts events into the log.
func (a *App) appendLines(ctx context.Context, lines [][]byte) error {
	entries := make([]state.Entry, len(lines))
	for i, line := range lines {
		entries[i].Value = line
	}
	return a.form.Append(ctx, entries)
}
