package kafka

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// sharedFetch asks one broker, by one connection, for all partitions whose Readers have been at their
// ends for a while. What a request costs is most of what it costs to follow a log, and one that asks
// for many partitions brings records of several of them at once.
//
// It does nothing but what is in order. Whatever is not, such as a partition that has moved, a broker
// that is lost, or records that come faster than they are taken, ends the seat of a Reader, which then
// asks by itself, on its own goroutine, and finds out.
type sharedFetch struct {
	mu sync.Mutex
	// seats are sorted by topic and partition. They are replaced and never changed, since run reads them.
	seats []*seat
	link  *link // nil while no seat is taken
}

// sharedFetches are those of a Cluster by the address of the broker.
type sharedFetches struct {
	mu       sync.Mutex
	byBroker map[string][]*sharedFetch
}

const (
	// sharedWait is how long the broker may hold back an answer. Who takes a seat is asked for by
	// the next request, so it is also how long that may take where all others are silent.
	sharedWait = 50 * time.Millisecond
	// sharedMost bounds what an answer brings of one partition, and sharedAnswer the whole of it, in
	// bytes, beside a first batch that is larger.
	sharedMost   = 64 << 10
	sharedAnswer = 1 << 20
	// sharedSeats is how many partitions one request asks for: it names all of them each time.
	sharedSeats = 32
)

// Where many records come, the broker holds an answer back until some are there, but not for long.
const (
	denseFrom  = 500 // parts of answers a second, each about one partition
	denseWait  = 2 * time.Millisecond
	denseBytes = 1 << 10
)

// mostBusy is how much of its time a fetch may spend on what came, on one goroutine for all. Above, its
// busiest partitions are given to their Readers.
const mostBusy = 0.5

// sit gives a Reader a seat. The link, to the broker of that address, is the fetch's from then on:
// the first one is asked by, others are closed.
func (c *Cluster) sit(r *Reader, l *link) *seat {
	c.fetches.mu.Lock()
	defer c.fetches.mu.Unlock()
	if c.fetches.byBroker == nil {
		c.fetches.byBroker = make(map[string][]*sharedFetch)
	}
	s := &seat{reader: r, sat: time.Now(), asked: r.asked}
	for _, f := range c.fetches.byBroker[l.addr] {
		if f.sit(s, l) {
			return s
		}
	}
	f := new(sharedFetch)
	c.fetches.byBroker[l.addr] = append(c.fetches.byBroker[l.addr], f)
	f.sit(s, l)
	return s
}

// sit reports whether there was a seat left. One request asks once for each partition, so another Reader
// of the same is seated elsewhere.
func (f *sharedFetch) sit(s *seat, l *link) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, taken := findSeat(f.seats, s.reader.topic, s.reader.partition)
	if taken || len(f.seats) >= sharedSeats {
		return false
	}
	s.fetch = f
	f.seats = slices.Insert(slices.Clone(f.seats), at, s)
	if f.link != nil {
		l.Close()
		return true
	}
	f.link = l
	go f.run(l)
	return true
}

// findSeat returns where the seat of a partition stands, or would.
func findSeat(seats []*seat, topic string, partition int) (at int, there bool) {
	return slices.BinarySearchFunc(seats, partition, func(s *seat, partition int) int {
		return cmp.Or(strings.Compare(s.reader.topic, topic), cmp.Compare(s.reader.partition, partition))
	})
}

// leave gives a seat up. Nothing is asked for by the fetch when it was the last.
func (f *sharedFetch) leave(s *seat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seats = slices.DeleteFunc(slices.Clone(f.seats), func(x *seat) bool { return x == s })
	if len(f.seats) == 0 && f.link != nil {
		f.link.Close() // which ends run
		f.link = nil
	}
}

// asking returns who is asked for by a link; none when it is not asked by any more.
func (f *sharedFetch) asking(l *link) []*seat {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link != l {
		return nil
	}
	return f.seats
}

// run fetches while at least one seat is taken.
func (f *sharedFetch) run(l *link) {
	defer l.Close()
	var request, answer []byte
	var ranges []fetchRange
	now, throttle := time.Now(), time.Duration(0)
	came, busy := perSecond{last: now}, perSecond{last: now}
	for {
		seats := f.asking(l)
		if len(seats) == 0 {
			return
		}
		ranges = ranges[:0]
		for _, s := range seats {
			ranges = append(ranges, fetchRange{s.reader.topic, int32(s.reader.partition), s.asked, int32(min(s.reader.o.Bytes, sharedMost))})
		}
		wait, least := sharedWait, 1
		if came.n >= denseFrom {
			wait, least = denseWait, denseBytes
		}
		l.id++
		request = appendFetch(request[:0], l.id, l.client, wait, int32(least), sharedAnswer, ranges...)
		a, err := l.fetch(request, &answer, wait+throttle)
		throttle = a.throttle
		begun := time.Now()
		var parts int
		if err == nil {
			parts, err = share(seats, &a)
		}
		now = time.Now()
		came.add(float64(parts), now)
		busy.add(now.Sub(begun).Seconds(), now)
		for _, s := range seats {
			switch {
			case err != nil:
				s.end(false)
			case busy.n > mostBusy && s.came:
				s.end(true)
			default:
				s.remind(now)
			}
		}
	}
}

// perSecond is about how many of something there are in a second of late.
type perSecond struct {
	n    float64
	last time.Time
}

// add counts what has come since the last time.
func (p *perSecond) add(n float64, now time.Time) {
	const late = 100 * time.Millisecond
	since := max(now.Sub(p.last), time.Microsecond)
	p.last = now
	p.n += (n/since.Seconds() - p.n) * float64(since) / float64(since+late)
}

// fetch sends a request and reads the head of the answer, the rest of which lies in memory.
func (l *link) fetch(request []byte, memory *[]byte, wait time.Duration) (fetchAnswer, error) {
	if err := l.SetDeadline(time.Now().Add(wait + l.patience)); err != nil {
		return fetchAnswer{}, err
	}
	if _, err := l.Write(request); err != nil {
		return fetchAnswer{}, err
	}
	size, err := l.length()
	if err != nil {
		return fetchAnswer{}, err
	}
	// Beyond it is a batch that some Reader has to read, or refuse, by itself.
	if size > 2*sharedAnswer {
		return fetchAnswer{}, errAnswer
	}
	*memory = slices.Grow((*memory)[:0], size)[:size]
	if _, err := io.ReadFull(l, *memory); err != nil {
		return fetchAnswer{}, err
	}
	a, err := parseFetch(*memory)
	if err == nil && (a.id != l.id || a.code != 0) {
		err = errAnswer
	}
	return a, err
}

// share gives each seat what is of its partition, and returns of how many there was something.
func share(seats []*seat, a *fetchAnswer) (parts int, err error) {
	for {
		p, ok, err := a.next()
		if err != nil || !ok {
			return parts, err
		}
		at, there := findSeat(seats, string(p.topic), int(p.partition))
		if !there {
			return parts, errAnswer
		}
		s := seats[at]
		if s.came = len(p.batches) > 0; s.came {
			parts++
		}
		if s.came || p.code != 0 || p.high > s.asked {
			s.give(&p)
		}
	}
}

// seat is the place of a Reader in a sharedFetch.
type seat struct {
	fetch  *sharedFetch
	reader *Reader
	sat    time.Time // since when

	// Only run writes them.
	asked int64 // from where the next request asks: all before has come
	came  bool  // something, with the last answer

	mu sync.Mutex
	// woken is closed to end the wait of the Reader, which is run's to use until then; nil when it
	// does not wait.
	woken chan struct{}
	since time.Time // that it waits
	given []Record  // to who waits
	// What has come while it did not.
	batches []byte
	high    int64 // high watermark
	ended   bool  // the Reader has to ask by itself when it has taken all
	crowded bool  // because there was too much for all to wait for
}

// wake ends the wait of the Reader, if it waits.
func (s *seat) wake() {
	if s.woken != nil {
		close(s.woken)
		s.woken = nil
	}
}

// end gives the seat up for its Reader.
func (s *seat) end(crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(crowded)
}

func (s *seat) endLocked(crowded bool) {
	if !s.ended {
		s.ended, s.crowded = true, crowded
		s.fetch.leave(s)
		s.wake()
	}
}

// remind has the Reader come back that has waited for as long as it may.
func (s *seat) remind(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= s.reader.o.Wait {
		s.wake()
	}
}

// give takes the part of an answer about the partition.
func (s *seat) give(p *fetchedPart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(p)
}

func (s *seat) giveLocked(p *fetchedPart) {
	if s.ended {
		return
	}
	if p.code != 0 {
		s.endLocked(false)
		return
	}
	asked, whole := endOf(p.batches, s.asked)
	s.batches = append(s.batches, whole...)
	s.asked, s.high = asked, p.high
	switch {
	// Less than a batch is left to the Reader. So are a partition that is not read to its end and a
	// Reader that does not come back for what there is.
	case len(whole) == 0, p.high > asked, len(s.batches) > sharedMost:
		s.endLocked(true)
	case s.woken != nil && !s.reader.takeAhead(s):
		s.wake()
	}
}

// takeAhead has o.Ahead take what has come for a Reader that waits, and reports whether it goes on to.
func (r *Reader) takeAhead(s *seat) (waits bool) {
	r.from(s)
	r.decoder.Reset(4 * r.o.Bytes)
	s.given = r.take(s.given[:0])
	// Something is wrong, or there is more than is given at once: Fetch sees to it.
	if r.seat != s || r.final != nil || len(r.rest) > 0 {
		return false
	}
	if len(s.given) == 0 { // nothing but marks
		return true
	}
	n, waits := r.o.Ahead(s.given)
	s.given = slices.Delete(s.given, 0, n)
	return waits
}

// from takes over what has come.
func (r *Reader) from(s *seat) {
	r.answer, s.batches = s.batches, r.answer[:0]
	r.rest, r.asked = r.answer, s.asked
	r.high.Store(s.high)
}

// follow waits for records of the shared fetch. It returns what was given, and leaves in rest what
// arrived without a waiting caller.
func (r *Reader) follow(ctx context.Context, dst []Record) ([]Record, error) {
	s := r.seat
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.o.Gather != nil && r.o.Gather() {
		s.endLocked(false)
	}
	if len(s.batches) == 0 && !s.ended {
		woken := make(chan struct{})
		s.woken, s.since, s.given = woken, time.Now(), dst
		s.mu.Unlock()
		select {
		case <-woken:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if s.woken != nil { // nothing has come
			s.woken = nil
			return dst, ctx.Err()
		}
		dst, s.given = s.given, nil
	}
	// What was given lies in the memory that from uses, and behind a fault the connection is another.
	if len(dst) > 0 || len(r.rest) > 0 || r.seat != s {
		return dst, nil
	}
	if len(s.batches) > 0 {
		r.from(s)
	}
	if s.ended {
		now := time.Now()
		r.seat, r.behind = nil, now
		// Who comes back and is too much again does so ever more seldom.
		if s.crowded && now.Sub(s.sat) < mostSettled {
			r.settled = min(2*r.settled, mostSettled)
		} else {
			r.settled = leastSettled
		}
	}
	return dst, nil
}
