package orders

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"weir/events"
	"weir/events/byhand"
)

// Proposal is a stop that a second person has to confirm.
type Proposal struct {
	ID    string
	Order byhand.Order
	Long  time.Duration // how long the stop lasts
	First string        // the principal that gave it
	Until events.Stamp
	// revision is that of the order when it was proposed: a proposal is void once the order has changed.
	revision int64
}

// DefaultSecond is how long a proposal waits for its second person where the settings do not say.
const DefaultSecond = 15 * time.Minute

// mostProposals is how many proposals wait at most.
const mostProposals = 256

// The errors of proposals.
var (
	ErrSamePerson  = errors.New("a second person has to confirm the order: this principal has given it")
	ErrNoProposal  = errors.New("there is no such proposal: it has expired, or was confirmed or withdrawn")
	ErrVoid        = errors.New("the order of this scope has changed since it was proposed; propose it again if it is still needed")
	ErrProposals   = errors.New("too many orders wait for a second person; withdraw some")
	ErrNotTwoNames = errors.New("this order needs two persons, which weir knows by the principals of --access-file")
)

// Proposals are the stops that wait for a second person. Kinds and Within are set before use; without
// kinds no order needs two persons. A restart forgets proposals. Any goroutine may use it.
type Proposals struct {
	Kinds  []events.ScopeKind // of scopes that need two persons
	Within time.Duration
	Book   *Book

	mu   sync.Mutex
	list []Proposal
}

// Needs reports whether an order needs two persons. An order within another scope is not one about all.
func (p *Proposals) Needs(o *byhand.Order) bool {
	return o.Order == byhand.Stop && len(o.Within) == 0 && slices.Contains(p.Kinds, o.Scope.Kind)
}

// Propose keeps an order until another principal confirms it.
func (p *Proposals) Propose(o byhand.Order, long time.Duration, first string) (Proposal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	if len(p.list) >= mostProposals {
		p.list = slices.DeleteFunc(p.list, p.void)
	}
	if len(p.list) >= mostProposals {
		return Proposal{}, ErrProposals
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	q := Proposal{ID: hex.EncodeToString(id[:]), Order: o, Long: long, First: first, Until: p.Book.Now().Add(p.Within), revision: revisionOf(p.Book.Get(o.ID()))}
	p.list = append(p.list, q)
	return q, nil
}

// forget drops what has timed out. The caller holds mu.
func (p *Proposals) forget() {
	now := p.Book.Now()
	p.list = slices.DeleteFunc(p.list, func(q Proposal) bool { return q.Until <= now })
}

// void reports whether the order has changed since. Such a proposal is kept until it expires, to say why it is of no use.
func (p *Proposals) void(q Proposal) bool { return revisionOf(p.Book.Get(q.Order.ID())) != q.revision }

// List returns those that can be confirmed, the oldest first.
func (p *Proposals) List() []Proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	return slices.DeleteFunc(slices.Clone(p.list), p.void)
}

// Take removes a proposal for a second person and returns it with the revision that its order has to
// have. The proposal stays if the person is the first one.
func (p *Proposals) Take(id, second string) (Proposal, *int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	at := slices.IndexFunc(p.list, func(q Proposal) bool { return q.ID == id })
	if at < 0 {
		return Proposal{}, nil, ErrNoProposal
	}
	q := p.list[at]
	switch {
	case second != "" && p.void(q):
		return q, nil, ErrVoid
	case q.First == second:
		return q, nil, ErrSamePerson
	}
	p.list = slices.Delete(p.list, at, at+1)
	return q, &q.revision, nil
}

// Withdraw removes a proposal.
func (p *Proposals) Withdraw(id string) (Proposal, error) {
	q, _, err := p.Take(id, "")
	return q, err
}
