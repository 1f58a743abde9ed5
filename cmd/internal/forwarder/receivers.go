package forwarder

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"weir/cmd/internal/selftest"
	"weir/sink/jsonl"
	"weir/sink/otlp"
	"weir/sink/webhook"
	"weir/state"
)

// ToFile returns a forwarder that appends verdicts to a file. When it ends, it first passes on the
// rest of the log. The caller sets log, cursors, clock and logger. Verdicts of the self-test are not
// forwarded, here as in the others.
func ToFile(path string, file *jsonl.File) *Forwarder {
	return &Forwarder{Name: "verdict file", Cursor: "file:" + path, Drain: true, Deliver: func(_ context.Context, verdicts []state.Entry) (int, error) {
		lines, behind := make([][]byte, 0, len(verdicts)), make([]int, 1, len(verdicts)+1)
		for i := range verdicts {
			if selftest.OwnVerdict(verdicts[i].Value) {
				behind[len(lines)] = i + 1
				continue
			}
			lines, behind = append(lines, verdicts[i].Value), append(behind, i+1)
		}
		n, err := file.Append(lines)
		return behind[n], err
	}}
}

// ToWebhook returns a forwarder that sends verdicts to a URL, one after the other. The caller sets
// log, cursors, clock and logger. A URL may hold a secret, so its hash names the cursor. At the end,
// weir does not wait for a server that does not answer.
func ToWebhook(url string, hook *webhook.Hook) *Forwarder {
	cursor := fmt.Sprintf("webhook:%016x", xxhash.Sum64String(url))
	return &Forwarder{Name: "webhook", Cursor: cursor, Deliver: func(ctx context.Context, verdicts []state.Entry) (int, error) {
		if selftest.OwnVerdict(verdicts[0].Value) {
			return 1, nil
		}
		if err := hook.Send(ctx, verdicts[0].Offset, verdicts[0].Value); err != nil {
			return 0, err
		}
		return 1, nil
	}}
}

// ToOTLP returns a forwarder that sends verdicts as log events to a URL. Log, cursors, clock and
// logger are left to the caller.
// A request holds a whole batch, of which all is taken or nothing.
func ToOTLP(url string, exporter *otlp.Exporter) *Forwarder {
	cursor := fmt.Sprintf("otlp:%016x", xxhash.Sum64String(url))
	return &Forwarder{Name: "log events", Cursor: cursor, Deliver: func(ctx context.Context, verdicts []state.Entry) (int, error) {
		lines := make([][]byte, 0, len(verdicts))
		for i := range verdicts {
			if !selftest.OwnVerdict(verdicts[i].Value) {
				lines = append(lines, verdicts[i].Value)
			}
		}
		if err := exporter.Export(ctx, lines); err != nil {
			return 0, err
		}
		return len(verdicts), nil
	}}
}

// ToApprovals returns a forwarder that shows verdicts to what asks persons about holds. Log, cursors, clock
// and logger are left to the caller.
func ToApprovals(deliver func(ctx context.Context, verdicts []state.Entry) (int, error)) *Forwarder {
	return &Forwarder{Name: "approvals", Cursor: "approvals.read", Deliver: deliver}
}

// ToRuntime returns a forwarder that has a program that runs agents cancel the work of orders by hand.
// Log, cursors, clock and logger are left to the caller.
func ToRuntime(name string, deliver func(ctx context.Context, verdicts []state.Entry) (int, error)) *Forwarder {
	return &Forwarder{Name: "runtime " + name, Cursor: "runtime:" + name, Deliver: deliver}
}
