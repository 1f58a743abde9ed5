package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/cmd/internal/api"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/retry"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/events/byhand"
)

// errTwoPersons is the error of settings that let no principal stop anything.
var errTwoPersons = errors.New("two-persons needs --access-file with at least two principals that may stop, one of them without orders")

// drillPatience is how long a drill on a schedule waits for confirmations.
const drillPatience = 10 * time.Second

// proposals makes what keeps stops that need a second person.
func (h *switchboard) proposals() *orders.Proposals {
	return &orders.Proposals{Kinds: h.settings.TwoPersons, Within: cmp.Or(h.settings.SecondWithin, orders.DefaultSecond), Book: h.book}
}

// settleEvery is how often a member looks for guards that follow another one now.
const settleEvery = 5 * time.Second

// settle makes receipts of an order in force as long as guards of this member have not confirmed it, so
// that guards which follow another member now are forgotten here and lower no figure.
func (h *switchboard) settle(ctx context.Context) error {
	receipt := api.ReceiptOf(h.server)
	for {
		if err := retry.Pause(ctx, h.clock, settleEvery); err != nil {
			return err
		}
		if list := h.book.List(false); len(list) > 0 && h.desk.Ratio() < 1 {
			_ = receipt(ctx, list[0])
		}
	}
}

// drill runs one drill on its schedule. The members of a group have one schedule: who finds that another
// has run the drill a short time ago waits for the next turn.
func (h *switchboard) drill(ctx context.Context, d switchfile.Drill) error {
	own := byhand.DrillOf(d.Scope)
	for {
		if err := retry.Pause(ctx, h.clock, d.Every); err != nil {
			return err
		}
		if last := h.book.Get(own.ID()); last != nil && h.book.Now().Sub(events.Stamp(last.Time)) < d.Every/2 {
			continue
		}
		report, err := api.DrillOf(h.server).Run(ctx, d.Scope, "weir", "a drill on schedule", drillPatience)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			h.logger.Error("a drill of the switch could not be run", "scope", d.Scope.String(), "error", err)
		case report.Complete && report.Unproven != "":
			h.logger.Warn("a drill of the switch has found no guard to try", "scope", d.Scope.String(), "members", report.Receipt.Members, "unproven", report.Unproven)
		case report.Complete:
			h.logger.Info("a drill of the switch is confirmed by all", "scope", d.Scope.String(), "guards", report.Receipt.Guards, "members", report.Receipt.Members, "took_ms", report.TookMS)
		default:
			h.logger.Error("a drill of the switch is not confirmed by all: they would not obey weir stop", "scope", d.Scope.String(), "guards", report.Receipt.Missing, "members", report.Receipt.Unreached)
		}
	}
}
