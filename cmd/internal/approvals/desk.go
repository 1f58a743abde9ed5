package approvals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/sink/recipient"
	"weir/state"
)

// Actor carries out answers.
type Actor interface {
	// Decide lets the work of a hold go on, or ends it. The error ErrOver says that the hold was over. by is
	// the Author, and as the principal that the tier stands for; "" for none.
	Decide(ctx context.Context, h *Hold, approve bool, by, as string, long time.Duration) error
	// Mine reports whether this process asks about a subject: one member of a group does.
	Mine(subject string) bool
	// Need is how much one refused call needs of the budget of a hold, in Unit; 0 where it is not known.
	Need(h *Hold) float64
	// Waits reports whether a proposal waits here.
	Waits(id string) bool
	// Publish passes a decision on to the other members of the group.
	Publish(ctx context.Context, d Decision)
}

// Audit records what is done without a request.
type Audit interface {
	// Before is on the disk when it returns nil; what it announces is not done otherwise.
	Before(h *Hold, kind, by, detail string) error
	After(h *Hold, kind, by, detail string)
}

// The kinds of lines in the audit log.
const (
	auditAsk        = "approval.ask"
	auditUnanswered = "approval.unanswered"
)

// Decision is how a hold ended.
type Decision struct {
	Hold string `json:"hold"`
	// Kind to Since are those of the hold; "" where an older weir wrote it.
	Kind    string         `json:"kind,omitempty"`
	Subject string         `json:"subject"`
	Rule    string         `json:"rule,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Text    string         `json:"text,omitempty"` // for persons: why it was held
	Since   events.RFC3339 `json:"since,omitzero"`
	Outcome string         `json:"outcome"`       // approved, denied, unanswered or over
	Did     string         `json:"did,omitempty"` // of unanswered: approved or denied
	By      string         `json:"by,omitempty"`
	Tier    string         `json:"tier,omitempty"` // whose link was used
	Time    events.RFC3339 `json:"time"`
}

// The outcomes.
const (
	Approved   = "approved"
	Denied     = "denied"
	Unanswered = "unanswered" // see switchfile.Approvals.Unanswered
	Over       = "over"       // it was decided elsewhere, or ended
)

// The bounds of a desk.
const (
	mostHolds = 1000
	mostDone  = 256
	// mostLapses is how many holds are ended at one time that no person has answered. Each may wait for the
	// fold, and for members that cannot be reached.
	mostLapses = 16
)

// Desk keeps the holds that persons are asked about. It reads them from the log of verdicts and stores them,
// so that they survive a restart. The fields are set before use. Any goroutine may call its methods.
type Desk struct {
	Settings *switchfile.Approvals
	Actor    Actor
	Audit    Audit
	Secrets  func() ([][]byte, error) // of links; the first one signs
	Store    orders.Cursors
	Now      func() events.Stamp
	Clock    clock.Clock
	Logger   *slog.Logger
	Counts   recipient.Counts // of messages

	mu      sync.Mutex
	holds   map[string]*Hold
	done    []Decision // the newest last
	changed chan struct{}
}

// cursor is the name of the holds in the store.
const cursor = "approvals"

// stored is what the store has.
type stored struct {
	Holds []*Hold    `json:"holds"`
	Done  []Decision `json:"done"`
}

// Load reads the holds of an earlier process. Proposals do not survive a restart.
func (d *Desk) Load() error {
	text, ok, err := d.Store.Cursor(cursor)
	if err != nil {
		return err
	}
	var s stored
	if ok {
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("the approvals in the state: %w", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds, d.done = make(map[string]*Hold), s.Done
	for _, h := range s.Holds {
		if h.Kind != OfProposal {
			h.kept = h.Until
			d.holds[h.ID] = h
		}
	}
	d.changed = make(chan struct{})
	return nil
}

// save stores the holds, and wakes the goroutines that look at them. The caller holds mu. A disk without room
// loses no hold: the next change stores it.
func (d *Desk) save() {
	close(d.changed)
	d.changed = make(chan struct{})
	s := stored{Holds: d.sorted(), Done: d.done}
	for _, h := range s.Holds {
		h.kept = h.Until
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = d.Store.SetCursor(cursor, text)
	}
	if err != nil && !errors.Is(err, state.ErrClosed) {
		d.Logger.Warn("the holds that persons are asked about are not stored; after a restart they may be asked again", "error", err)
	}
}

// sorted returns the holds, the oldest first. The caller holds mu.
func (d *Desk) sorted() []*Hold {
	out := make([]*Hold, 0, len(d.holds))
	for _, h := range d.holds {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *Hold) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Deliver reads holds in the log of verdicts, see forwarder.Forwarder.
func (d *Desk) Deliver(_ context.Context, verdicts []state.Entry) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := false
	for i := range verdicts {
		line := verdicts[i].Value
		if len(d.holds) == 0 && !bytes.Contains(line, []byte(`"action":"hold"`)) { // nearly all verdicts
			continue
		}
		var v events.Verdict
		if events.DecodeVerdict(line, &v) == nil {
			news = d.take(&v) || news
		}
	}
	if news {
		d.save()
	}
	return len(verdicts), nil
}

// take reports whether a verdict changes what has to be stored. The caller holds mu.
func (d *Desk) take(v *events.Verdict) bool {
	if h := holdOf(v, d.Settings.Grant); h != nil {
		if h.Kind == OfBudget {
			h.Extra = max(h.Extra, d.Actor.Need(h))
		}
		return d.begin(h)
	}
	if v.Mode != events.ModeEnforce {
		return false
	}
	news := false
	if h := d.holds[orders.IDOf(v.ID)]; h != nil && !h.busy && v.Action != events.Hold {
		d.end(h, Decision{Outcome: Over})
		news = true
	}
	// A stop of the flow or the tree by a person decides as well.
	row, known := analyzer.RowNamed(v.RuleID)
	if v.Action == events.Halt && (v.ByHand != nil || known && row.Fixed) {
		for _, h := range d.sorted() {
			if !h.busy && (h.Kind == OfSpawn && v.Scope.Kind == events.ScopeFlow && v.Scope.ID == h.Flow || h.Kind == OfTree && v.Scope.Kind == events.ScopeTree && v.Scope.ID == h.Root) {
				d.end(h, Decision{Outcome: Over})
				news = true
			}
		}
	}
	return news
}

// begin notes a hold and reports whether it has to be stored. The caller holds mu.
func (d *Desk) begin(h *Hold) bool {
	for _, old := range d.holds {
		if old.ID == h.ID || h.Kind == OfSpawn && old.Kind == OfSpawn && old.Flow == h.Flow && old.Rule == h.Rule {
			return old.renew(h)
		}
	}
	if h.early {
		return false
	}
	// What was decided is not asked again: a renewal may have been under way.
	if was := d.decided(h.ID); was != nil && was.Outcome != Over || events.Stamp(h.Until).Add(grace) <= d.Now() {
		return false
	}
	if len(d.holds) >= mostHolds {
		d.Logger.Error("too many holds wait for persons; this one is not asked about", "subject", h.Subject, "order", h.ID, "waiting", len(d.holds))
		return false
	}
	d.holds[h.ID] = h
	return true
}

// end forgets a hold and remembers how it ended. The caller holds mu.
func (d *Desk) end(h *Hold, as Decision) {
	delete(d.holds, h.ID)
	as.Hold, as.Kind, as.Subject, as.Rule, as.Reason, as.Text, as.Since = h.ID, h.Kind, h.Subject, h.Rule, h.Reason, h.Text, h.Since
	as.Time = events.RFC3339(d.Now())
	d.note(as)
}

func (d *Desk) note(as Decision) {
	d.done = append(d.done, as)
	if over := len(d.done) - mostDone; over > 0 {
		d.done = slices.Delete(d.done, 0, over)
	}
}

// decided returns how a hold ended last; nil when it is not known. The caller holds mu.
func (d *Desk) decided(id string) *Decision {
	for i := len(d.done) - 1; i >= 0; i-- {
		if d.done[i].Hold == id {
			return &d.done[i]
		}
	}
	return nil
}

// Decided takes in what another member of the group has decided.
func (d *Desk) Decided(as Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.holds[as.Hold]; h != nil && h.busy || d.decided(as.Hold) != nil {
		return
	}
	delete(d.holds, as.Hold)
	d.note(as) // also where the verdict of the hold has not come yet
	d.save()
}

// Propose asks about a stop that waits for its second person.
func (d *Desk) Propose(q *orders.Proposal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begin(ofProposal(q, d.Now())) {
		d.save()
	}
}

// Waiting lists the holds, the oldest first, and how the last ones ended.
func (d *Desk) Waiting() (holds []Hold, done []Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.sorted() {
		holds = append(holds, *h)
	}
	return holds, slices.Clone(d.done)
}

// longestTurn is how often the desk looks at its holds at least: a partition may have come meanwhile.
const longestTurn = time.Second

// Run asks, escalates and lapses until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for i := range d.Settings.Tiers {
		group.Go(func() { d.serve(ctx, i) })
	}
	places := make(chan struct{}, mostLapses)
	for {
		d.mu.Lock()
		due := d.turn()
		changed := d.changed
		d.mu.Unlock()
		for _, h := range due { // no other goroutine decides them, as they are busy
			group.Go(func() {
				select {
				case places <- struct{}{}:
				case <-ctx.Done(): // the next process ends it
					return
				}
				defer func() { <-places }()
				d.lapse(ctx, h)
			})
		}
		select {
		case <-changed:
		case <-d.Clock.After(longestTurn):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn moves each hold on and returns those that no person has answered. The caller holds mu.
func (d *Desk) turn() (unanswered []*Hold) {
	now, news := d.Now(), false
	for _, h := range d.sorted() {
		switch {
		case h.busy:
		case events.Stamp(h.Until).Add(grace) <= now || h.Kind == OfProposal && !d.Actor.Waits(h.ID):
			d.end(h, Decision{Outcome: Over})
			news = true
		case h.Kind != OfProposal && !d.Actor.Mine(h.Subject):
		case h.Asked == 0:
			h.Asked = d.firstTier(h, now) + 1
			h.Next = events.RFC3339(now.Add(d.Settings.Tiers[h.Asked-1].Wait))
			news = true
		case events.Stamp(h.Next) > now || h.Lapsed:
		case h.Asked < len(d.Settings.Tiers):
			h.Asked++
			h.Delivered, h.tries = false, 0
			h.Next = events.RFC3339(now.Add(d.Settings.Tiers[h.Asked-1].Wait))
			d.Logger.Warn("no person has answered; the next tier is asked", "subject", h.Subject, "order", h.ID, "tier", d.Settings.Tiers[h.Asked-1].Name)
			news = true
		default:
			h.busy = true
			unanswered = append(unanswered, h.copy())
			news = true
		}
	}
	if news {
		d.save()
	}
	return unanswered
}

// firstTier is the tier that is asked first: a member that has taken over a hold begins with the tier whose
// time it is. The last one always gets its whole time.
func (d *Desk) firstTier(h *Hold, now events.Stamp) int {
	waited := now.Sub(events.Stamp(h.Since))
	for i := range d.Settings.Tiers {
		if waited < d.Settings.Tiers[i].Wait {
			return i
		}
		waited -= d.Settings.Tiers[i].Wait
	}
	return len(d.Settings.Tiers) - 1
}

// lapse does what the settings say of a hold that no person has answered.
func (d *Desk) lapse(ctx context.Context, h *Hold) {
	does := d.Settings.Unanswered
	switch {
	case does == switchfile.Allow && (!h.Reached || h.Kind == OfProposal):
		does = switchfile.Hold // no person has seen a message, or a second person is needed
	case does == switchfile.Deny && (h.Armed || h.Kind == OfSpawn || h.Kind == OfProposal):
		does = switchfile.Hold // it may not go on at all, or have got its place meanwhile; the proposal ends by itself
	}
	detail := "no tier has answered: " + does
	if err := d.Audit.Before(h, auditUnanswered, Author, detail); err != nil {
		d.again(h)
		return
	}
	var err error
	if does != switchfile.Hold {
		err = d.Actor.Decide(ctx, h, does == switchfile.Allow, Author, "", d.Settings.For)
	}
	if err != nil && !errors.Is(err, ErrOver) {
		d.Logger.Error("the answer to a hold without an answer failed; it is tried again", "subject", h.Subject, "order", h.ID, "does", does, "error", err)
		d.again(h)
		return
	}
	d.Audit.After(h, auditUnanswered, Author, detail)
	d.Logger.Warn("no person has answered", "subject", h.Subject, "order", h.ID, "does", does)
	if does == switchfile.Hold {
		d.mu.Lock() // a late answer counts
		defer d.mu.Unlock()
		if kept := d.holds[h.ID]; kept != nil {
			kept.busy, kept.Lapsed = false, true
		}
		d.save()
		return
	}
	did := Denied
	if does == switchfile.Allow {
		did = Approved
	}
	d.finish(ctx, h, Decision{Outcome: Unanswered, Did: did, By: Author})
}

// Author is the name of what weir does by itself.
const Author = "weir"

// again lets a hold wait on that was not decided.
func (d *Desk) again(h *Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.holds[h.ID]; kept != nil {
		kept.busy = false
		kept.Next = max(kept.Next, events.RFC3339(d.Now().Add(time.Second)))
	}
	d.save()
}

// finish ends a hold that was decided here, and returns the whole decision.
func (d *Desk) finish(ctx context.Context, h *Hold, as Decision) Decision {
	d.mu.Lock()
	d.end(h, as)
	as = d.done[len(d.done)-1]
	d.save()
	d.mu.Unlock()
	d.Actor.Publish(ctx, as)
	return as
}
