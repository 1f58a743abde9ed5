package group

import (
	"context"
	"time"
)

// How often the group is told how far the fold is: each second, and at once when so many
// records were worked off that somebody may wait for the last of them, when the limits came back
// that were appended behind them, or when no more came while a fetch waited.
const (
	commitEvery   = time.Second
	commitBacklog = 1000
)

// commit tells the group how far the fold is, for those who watch its lag, beside the fold. silent
// says that a fetch waited and nothing came.
func (p *partitionOwner) commit(silent bool) {
	// By the pump and not by the reader: what is not published may not be told.
	next, now := p.pump.Next(), p.member.clock.Now()
	if next == p.committed || !p.workedOff(next, silent) && now.Sub(p.committedAt) < commitEvery {
		return
	}
	select {
	case <-p.commits:
		// Noted before it has worked: a commit that fails is made good by the next one.
		p.committed, p.committedAt = next, now
		go func() {
			p.commitOffset(next)
			p.commits <- struct{}{}
		}()
	// One is under way; the next turn of the loop comes by here again.
	default:
	}
}

// workedOff reports whether the group is to be told at once that the fold has come to next.
func (p *partitionOwner) workedOff(next int64, silent bool) bool {
	limits := p.committed < p.limitsEnd && p.limitsEnd <= next
	return p.behind() == 0 && (next-p.committed >= commitBacklog || limits || silent)
}

// commitLast waits for the commit under way, for it must not be overtaken by it, and tells the
// group where the fold has ended.
func (p *partitionOwner) commitLast(ctx context.Context) {
	next := p.pump.Next()
	if next == p.committed {
		return
	}
	select {
	case <-p.commits:
		p.commitOffset(next)
	case <-ctx.Done():
	}
}

// commitOffset tells the group how far the partition is folded. A failure costs nothing but a display that is late: decision 23.
func (p *partitionOwner) commitOffset(next int64) {
	m := p.member
	if err := p.as.Commit(next); err == nil {
		m.commits[0].Add(1)
	} else {
		m.commits[1].Add(1)
		m.logger.Debug("the group was not told how far the fold is", "topic", p.set.topic, "partition", p.partition, "error", err)
	}
}
