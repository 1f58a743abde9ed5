package group

import (
	"context"
	"time"
)

// How often the offset of the fold is committed to the group. It is committed with each second of the
// clock, so that the partitions of a process share a request. It is committed at once if a fetch
// waited and returned nothing. At the end of the log it is also committed at once, but at most
// commitsEarly times more than once a second. Records behind a backlog, such as limits and weir's own
// loop, must not delay callers that wait for a lag of 0.
const (
	commitEvery  = time.Second
	commitsEarly = 8
)

// offsetCommits is what an owner knows of its commits. The goroutine of a commit has the token and
// nothing else.
type offsetCommits struct {
	last  int64
	at    time.Time
	early int           // commits at the end of the log that no second has earned yet
	token chan struct{} // holds one while no commit is under way
}

// commit commits the offset of the fold to the group, in parallel to the fold. It is for the tools
// that watch the lag. silent means that a fetch waited and returned nothing.
func (p *partitionOwner) commit(silent bool) {
	// The offset of the pump is used and not that of the reader: what is not published must not be
	// committed.
	next, now, behind := p.pump.Next(), p.member.clock.Now(), p.behind() > 0
	if next == p.commits.last || !silent && !p.commits.may(now, behind) {
		return
	}
	select {
	case <-p.commits.token:
		// Noted before it has worked: a commit that fails is made good by the next one.
		p.commits.last = next
		p.commits.pace(now, behind)
		go func() {
			p.commitOffset(next)
			p.commits.token <- struct{}{}
		}()
	// One is under way; the next turn of the loop comes by here again.
	default:
	}
}

// may reports whether the pace of commits allows one now. In a backlog no caller waits for it.
func (c *offsetCommits) may(now time.Time, behind bool) bool {
	return seconds(c.at, now) > 0 || !behind && c.early < commitsEarly
}

// pace counts a commit. At the end of the log it costs one, and each second earns one. Those
// behind a fetch that waited are made whatever it costs, so the debt has an end.
func (c *offsetCommits) pace(now time.Time, behind bool) {
	earned := seconds(c.at, now)
	if !behind {
		earned--
	}
	c.early, c.at = min(max(0, c.early-earned), commitsEarly), now
}

// seconds is how many seconds of the clock, of the length of commitEvery, have begun since; after a
// clock was set back one, since none may be waited for.
func seconds(since, now time.Time) int {
	n := now.UnixNano()/int64(commitEvery) - since.UnixNano()/int64(commitEvery)
	if n < 0 {
		return 1
	}
	return int(n)
}

// commitLast commits the last offset of the fold. It first waits for the commit under way, which must
// not overtake it.
func (p *partitionOwner) commitLast(ctx context.Context) {
	next := p.pump.Next()
	if next == p.commits.last {
		return
	}
	select {
	case <-p.commits.token:
		p.commitOffset(next)
	case <-ctx.Done():
	}
}

// commitOffset commits the offset of a partition to the group. A failure costs only a late display:
// decision 23.
func (p *partitionOwner) commitOffset(next int64) {
	m := p.member
	if err := p.as.Commit(next); err == nil {
		m.counts.commits[0].Add(1)
	} else {
		m.counts.commits[1].Add(1)
		m.logger.Debug("the group was not told how far the fold is", "topic", p.set.topic, "partition", p.partition, "error", err)
	}
}
