package group

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/sink/check"
)

// A check request of a flow in a tree gets two answers. The member that folds the flow says whether
// the flow may. The member that folds the tree decides; the record between the two stages is its
// request. The first member withholds its answer and requests that decision from the other one over
// HTTP. The decision comes from the fold of that record and from nowhere else.

// TreeAsk identifies a request to a tree: the record of its activity that is made of the event at an
// offset of a source partition.
type TreeAsk struct {
	Key    string `json:"key"` // of the tree, see activity.TreeKey
	Source int    `json:"source"`
	Offset int64  `json:"offset"`
}

// TreeWord is what a tree has said to an ask: its verdict, or that the tree above has the last
// word, of which Next asks.
type TreeWord struct {
	Verdict json.RawMessage `json:"verdict,omitempty"`
	Next    *TreeAsk        `json:"next,omitempty"`
}

// word is a TreeWord as it is kept; the zero word is none.
type word struct {
	verdict *events.Verdict
	next    *TreeAsk
}

// none reports whether nothing was said.
func (w word) none() bool { return w == word{} }

const (
	// treeWordsKept is how many words are kept for requests that come after them. That is far more
	// than are said while a request is on its way.
	treeWordsKept = 1 << 12
	// treePoll is how long a member lets another one wait for a word that is not said yet,
	// since the tree may have another owner meanwhile.
	treePoll = 250 * time.Millisecond
	// treeAgain is how long a member waits before it asks again for a word that it did not get.
	treeAgain = 20 * time.Millisecond
)

// place is where in the events an ask stands.
type place struct {
	source int
	offset int64
}

// treeWords are the words that trees have said here. Any goroutine may use it.
type treeWords struct {
	mu      sync.Mutex
	said    map[place]word
	order   [treeWordsKept]place // of said, a ring
	next    int
	waiting map[place]chan struct{} // closed when the word is said
}

// newTreeWords returns one in which nothing was said yet.
func newTreeWords() *treeWords {
	return &treeWords{said: make(map[place]word), waiting: make(map[place]chan struct{})}
}

// say keeps a word, and wakes who waits for it.
// A word that is said again, since the record was folded again, replaces the same one.
func (w *treeWords) say(at place, v word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The oldest word is dropped. A later request for it waits until its check request times out.
	if _, known := w.said[at]; !known {
		if len(w.said) == treeWordsKept { // before, what the ring holds there is the first record's own place
			delete(w.said, w.order[w.next])
		}
		w.order[w.next] = at
		w.next = (w.next + 1) % treeWordsKept
	}
	w.said[at] = v
	if c, ok := w.waiting[at]; ok {
		close(c)
		delete(w.waiting, at)
	}
}

// get returns a word that was said, or else what is closed when it is.
// Who got a channel and gives up calls leave, or the map would grow with each ask without an answer.
func (w *treeWords) get(at place) (word, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.said[at]; ok {
		return v, nil
	}
	c, ok := w.waiting[at]
	if !ok {
		c = make(chan struct{})
		w.waiting[at] = c
	}
	return word{}, c
}

// leave ends the wait of one caller. Others that wait for the same word request it again.
func (w *treeWords) leave(at place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.waiting[at]; ok {
		close(c)
		delete(w.waiting, at)
	}
}

// treeAsks settle the check requests of flows in trees. Any goroutine may use them once the sets are
// there.
type treeAsks struct {
	host    *Host
	clock   clock.Clock
	logger  *slog.Logger
	sets    *topicSets
	owners  *owners
	peers   *peers
	running *phase.Phase // has the requests that wait
	words   *treeWords   // what trees that are folded here have said, for other members
}

// hold is called by the pump of a partition of events for each ask that its flow has
// allowed and whose tree has the last word.
// It returns at once. ev, key and v lie in memory of the pump that is used again, so what outlives
// the call is cloned.
func (a *treeAsks) hold(partition int, offset int64, ev *events.Event, key string, v *events.Verdict) {
	if !a.host.Hold(ev, v) {
		return // no request waits: the record is folded again
	}
	ask := TreeAsk{Key: strings.Clone(key), Source: partition, Offset: offset}
	call := &events.Event{Source: strings.Clone(ev.Source), ID: strings.Clone(ev.ID), CorrelationID: strings.Clone(ev.FlowKey())}
	a.running.Run("ask of a tree", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, a.host.AnswerTimeout)
		defer cancel()
		// Without a word, the caller gets the answer that its request timed out.
		if v := a.word(ctx, ask); v != nil {
			a.host.Settle(call, v)
		}
		return nil
	})
}

// word returns the decision of the tree, from any member, or of the parent tree that decides
// instead. It returns nil if that is not known in time. Trees pass requests on upwards only, so the
// loop ends at a root, or when the time of the request is over.
func (a *treeAsks) word(ctx context.Context, ask TreeAsk) *events.Verdict {
	for ctx.Err() == nil {
		w, err := a.wordOnce(ctx, ask)
		switch {
		case err != nil:
			// A hand-over looks like this from here; the word comes from the next owner
			// (see decision 68).
			a.sets.agents.addresses.forget() // it may have changed
			a.logger.Debug("a tree does not answer; it is asked again", "key", ask.Key, "error", err)
			_ = retry.Pause(ctx, a.clock, treeAgain) // the loop ends with ctx
		case w.verdict != nil:
			return w.verdict
		case w.next != nil:
			// The tree belongs to a tree above, whose record is another one.
			ask = *w.next
		}
	}
	a.logger.Warn("whoever folds a tree of flows does not answer in time", "key", ask.Key, "partition", a.sets.agents.partitionOf(ask.Key))
	return nil
}

// wordOnce sends one request to the member that folds the tree. The zero word means that there is
// no decision yet.
func (a *treeAsks) wordOnce(ctx context.Context, ask TreeAsk) (w word, err error) {
	number := a.sets.agents.partitionOf(ask.Key)
	if a.owners.at(a.sets.agents, number) != nil {
		return a.wordHere(ctx, ask), nil
	}
	address, err := a.peers.ownerOf(ctx, a.sets.agents, number)
	if err != nil {
		return w, err
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return w, err
	}
	status, answer, err := a.host.Peer.Post(ctx, address, check.TreePath, body)
	switch {
	case err != nil:
		return w, fmt.Errorf("%s: %w", address, err)
	case status == http.StatusNoContent:
		return w, nil // it is not said yet
	}
	var said TreeWord
	if err := json.Unmarshal(answer, &said); err != nil {
		return w, err
	}
	if w.next = said.Next; w.next != nil {
		return w, nil
	}
	w.verdict = new(events.Verdict)
	return w, events.DecodeVerdict(said.Verdict, w.verdict)
}

// wordHere waits a while for a word of a tree that is folded here; none when it is not said.
// treePoll bounds it: an owner that loses the tree would never say the word.
func (a *treeAsks) wordHere(ctx context.Context, ask TreeAsk) word {
	at := place{ask.Source, ask.Offset}
	w, said := a.words.get(at)
	if !w.none() {
		return w
	}
	select {
	case <-said:
	case <-a.clock.After(treePoll):
	case <-ctx.Done():
	}
	if w, _ = a.words.get(at); w.none() {
		a.words.leave(at)
	}
	return w
}

// TreeHere returns what a tree that is folded here has said to an ask that another member
// waits for; nothing when it is not said yet.
// It is for check.TreePath, which only members of the group may call. A nil answer without an error
// is sent as 204.
func (a *treeAsks) TreeHere(ctx context.Context, request []byte) ([]byte, error) {
	var ask TreeAsk
	if err := json.Unmarshal(request, &ask); err != nil || ask.Key == "" || ask.Source < 0 || ask.Offset < 0 {
		return nil, &problem.Error{Status: http.StatusBadRequest, Detail: "want the key of a tree, and the source and offset of what is asked of it"}
	}
	number := a.sets.agents.partitionOf(ask.Key)
	if a.owners.at(a.sets.agents, number) == nil {
		return nil, &problem.Error{Status: http.StatusServiceUnavailable, Detail: a.sets.agents.describe(number) + " has another owner now", RetryAfter: 1}
	}
	switch w := a.wordHere(ctx, ask); {
	case w.next != nil:
		return json.Marshal(TreeWord{Next: w.next})
	case w.verdict != nil:
		return json.Marshal(TreeWord{Verdict: w.verdict.AppendJSON(nil)})
	}
	// Nil when the time of this member's patience is over and not that of the request.
	return nil, context.Cause(ctx)
}

// settled is called by the pump of a partition of activity for each ask that a tree has
// answered.
func (a *treeAsks) settled(from pump.Position, v *events.Verdict) {
	a.words.say(place{from.Source, from.Offset}, word{verdict: v})
}

// passedOn is called by that pump for each ask that belongs to another tree.
func (a *treeAsks) passedOn(from pump.Position, next TreeAsk) {
	a.words.say(place{from.Source, from.Offset}, word{next: &next})
}
