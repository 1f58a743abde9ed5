package api

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/state"
)

// orderLog appends the events of orders and waits for the verdicts that they bring about. Its log and
// its verdicts are set by Serve.
type orderLog struct {
	log      Log
	verdicts Verdicts
	clock    clock.Clock
	logger   *slog.Logger
	timeout  time.Duration // see Options.AnswerTimeout
}

// put appends an event to the log. The function that it returns waits for the result of the
// fold, see orderLog.said.
// put notes the end of the verdict log before it appends the event, or the fold might be
// faster. The time to wait begins here, not with the call of said. If the verdicts of the
// flow cannot be followed in time, the order is given all the same, possibly without a result.
// leave ends the following; it is called also after an error.
func (o *orderLog) put(ctx context.Context, ev *events.Event) (said func() []json.RawMessage, leave func(), err error) {
	raw, err := lineOf(ev)
	if err != nil {
		return nil, func() {}, err
	}
	reached, leave := o.log.Follow(ev.FlowKey(), true)
	o.waitFor(ctx, reached)
	from, timeout := o.verdicts.End(), o.clock.After(o.timeout)
	if err := o.log.Append(ctx, []state.Entry{{Value: raw}}); err != nil {
		return nil, leave, err
	}
	return func() []json.RawMessage { return o.said(ctx, from, ev.ID, timeout) }, leave, nil
}

// said returns the verdicts that the event has brought about, among those from an
// offset on; none when there are none in time.
// It reads what everybody's verdicts are, so it first looks for the id in the bytes, which
// is cheaper than decoding each. An order that brings nothing about is answered without
// verdicts: it stands in the log all the same.
func (o *orderLog) said(ctx context.Context, from int64, id string, timeout <-chan time.Time) (out []json.RawMessage) {
	for {
		// An order is in the log; that its verdicts cannot be read is no reason to refuse
		// it.
		first, batch, err := state.ReadOn(o.verdicts.Read, from, streamBatch, nil)
		if err != nil {
			o.logger.Warn("the verdicts on an order cannot be read", "event", id, "error", err)
			return nil
		}
		last := false
		for i := range batch {
			var v events.Verdict
			line := batch[i].Value
			if last = bytes.Contains(line, []byte(id)) && events.DecodeVerdict(line, &v) == nil && v.Trigger != nil && v.Trigger.EventID == id; last {
				out = append(out, bytes.Clone(line))
			}
		}
		// Those of one event are published together, so there may be more of them only
		// behind a batch that ends with one.
		if from = first + int64(len(batch)); len(out) > 0 && !(last && len(batch) == streamBatch) {
			return out
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-o.verdicts.Ready(from):
		case <-timeout:
			return out
		case <-ctx.Done():
			return out
		}
	}
}

// waitFor waits until the verdicts that are followed stand in the log, for as long as answers are
// waited for; false when they do not.
func (o *orderLog) waitFor(ctx context.Context, reached func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return reached(ctx)
}
