package approvals

import (
	"context"
	"errors"
	"fmt"

	"weir/cmd/internal/switchfile"
)

// The errors of answers. Their texts are shown to persons.
var (
	ErrLink    = errors.New("this link is not one of this weir")
	ErrExpired = errors.New("this link has expired")
	ErrOver    = errors.New("this does not wait for an answer any more: it was decided elsewhere, or has ended")
	ErrBusy    = errors.New("another answer is carried out at this moment; open the link again")
)

// UsedError is the error of a link whose hold was decided.
type UsedError struct{ Decision }

// Error says how it was decided, when and by which author.
func (e *UsedError) Error() string {
	by := ""
	if e.By != "" {
		by = " by " + e.By
	}
	return fmt.Sprintf("this was %s%s at %s; the link is of no use any more", e.Outcome, by, e.Time)
}

// Open returns what a link is about.
func (d *Desk) Open(token string) (*Link, *Hold, error) {
	secrets, err := d.Secrets()
	if err != nil {
		return nil, nil, ErrLink
	}
	l := readLink(token, secrets)
	if l == nil {
		return nil, nil, ErrLink
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.waits(l)
	if err != nil {
		return l, nil, err
	}
	return l, h.copy(), nil
}

// waits returns the hold of a link that can be used. The caller holds mu.
func (d *Desk) waits(l *Link) (*Hold, error) {
	h := d.holds[l.Hold]
	switch was := d.decided(l.Hold); {
	case h != nil && h.busy:
		return nil, ErrBusy
	case h == nil && was != nil && was.Outcome != Over:
		return nil, &UsedError{*was}
	case l.Until <= d.Now():
		return nil, ErrExpired
	case h == nil || d.tier(l.Tier) == nil:
		return nil, ErrOver
	}
	return h, nil
}

func (d *Desk) tier(name string) *switchfile.Tier {
	for i := range d.Settings.Tiers {
		if t := &d.Settings.Tiers[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// By names the author of an answer by a link: the principal of its tier or the tier, and the name that the
// person gave. Nothing proves that name.
func By(t *switchfile.Tier, given string) string {
	if t.As != "" {
		return t.As + "/link"
	}
	by := "link/" + t.Name
	if given != "" {
		by += "/" + given
	}
	return by
}

// Answer carries out a link, once. given is the name that the person gave.
func (d *Desk) Answer(ctx context.Context, l *Link, given string) (*Decision, error) {
	d.mu.Lock()
	h, err := d.waits(l)
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	t := d.tier(l.Tier)
	h.busy = true
	h = h.copy()
	d.mu.Unlock()
	ended := false
	defer func() {
		if !ended { // after an error, and after a panic, which ends its request alone
			d.again(h)
		}
	}()
	as := Decision{Outcome: Denied, By: By(t, given), Tier: l.Tier}
	if l.Action == Approve {
		as.Outcome = Approved
	}
	err = d.Actor.Decide(ctx, h, l.Action == Approve, as.By, t.As, d.Settings.For)
	over := errors.Is(err, ErrOver)
	if err != nil && !over {
		return nil, err
	}
	ended = true
	if over {
		d.finish(ctx, h, Decision{Outcome: Over})
		return nil, ErrOver
	}
	d.Logger.Info("a person has answered", "subject", h.Subject, "order", h.ID, "outcome", as.Outcome, "by", as.By, "tier", as.Tier)
	as = d.finish(ctx, h, as)
	return &as, nil
}

// AsksName reports whether the page of a link asks for the name of the person.
func (d *Desk) AsksName(l *Link) bool {
	t := d.tier(l.Tier)
	return t != nil && t.As == ""
}

// Author is By for the tier of a link.
func (d *Desk) Author(l *Link, given string) string {
	t := d.tier(l.Tier)
	if t == nil {
		return ""
	}
	return By(t, given)
}
