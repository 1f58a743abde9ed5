package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events/kafka/recordbatch"
)

// ReaderOptions are how a Reader reads. The zero value is good.
//
// Bytes and Unpacked bound memory: of a batch that is larger than Unpacked nothing is given,
// and it is passed over with an error.
type ReaderOptions struct {
	Wait     time.Duration // longest wait for a first record; default 250 ms
	Bytes    int           // about how much is asked of the broker at once; default 1 MiB
	Unpacked int           // largest batch of records, unpacked; default 32 MiB
	Logger   *slog.Logger  // logs when the broker is lost and found again; nil: none

	// Gather is asked before each request. If it says so, the broker may hold an answer back for
	// 100 ms, and no longer than Wait, until half of Bytes are there: who is in no hurry asks less
	// often. Nil: whatever there is comes at once.
	Gather func() bool

	// Ahead takes records while a Fetch waits at the end of the partition, in its stead and on another
	// goroutine. It returns how many it has taken, and whether the Fetch goes on to wait; else it ends
	// with the others. Nil: Fetch gives all.
	Ahead func(records []Record) (n int, wait bool)
}

// Reader reads one partition in order from an offset on. It has no goroutine, but that one asks a broker
// for all Readers of a Cluster that have been at their ends for a second and have an Ahead; while
// the caller works on what a Fetch gave, the broker already prepares the next. It gives
// the records of transactions that are not committed, or never will be, like any
// others, and no marks of transactions. Fetch, SkipTo and Close are for one goroutine;
// the other methods are safe for concurrent use.
//
// Its memory is bounded whatever producers send: by some three times Bytes in daily
// work, and by that and four times Unpacked at the worst, the caller's slice included.
// The library's own ways of reading are not: they unpack a batch of a few kilobytes to
// as many gigabytes as it holds. They also give the producer's time where the broker's
// counts, and stand still before an empty batch, which is why a Reader decodes itself.
//
// A Fetch that ends with nothing is what lets the caller do other work in between: it has to
// come back often, for time passes in silence as well.
type Reader struct {
	cluster   *Cluster
	topic     string
	partition int
	o         ReaderOptions

	// seat is where the Reader is asked for together with others, see sharedFetch; link is nil then.
	seat *seat
	// There it sits when it has been at the end for settled.
	settled time.Duration
	behind  time.Time // when it was not at the end last

	link *link
	// The end of watched closes link: one watch per connection, because a follower of a topic
	// fetches thousands of times a second. unwatch ends it and reports whether that came in time.
	watched context.Context
	unwatch func() bool
	// Everything before asked has come and lies in rest, or was given.
	asked   int64 // from where the answer that is under way begins, or would
	waiting bool  // an answer is under way
	// request, answer and the decoder's memory are used again for each Fetch, which is why
	// records are good only until the next.
	request []byte // memory of the last one
	answer  []byte // memory of the last one
	rest    []byte // batches of the answer that are still to be unpacked
	// The decoder holds what was unpacked since the last Fetch.
	decoder *recordbatch.Decoder
	// throttle is the value in the broker's last answer.
	throttle time.Duration
	damaged  int   // answers in a row whose first batch had a wrong checksum
	final    error // what the caller must step over
	// pause is how long the last wait before a connection was; it doubles from firstPause to
	// lastPause and is 0 while all is well.
	pause time.Duration
	again time.Time // not to connect before

	// next and high are written by Fetch and read by the measurement of lag.
	next    atomic.Int64
	high    atomic.Int64
	trouble trouble
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// maxDamaged is how often a batch is read again that has a wrong checksum: the
	// damage may have been done on the way.
	maxDamaged = 3
	// maxRecords is with how many records Fetch is content: their slice is the
	// caller's to keep.
	maxRecords = 1 << 16
	// gatherFor is how long an answer may be held back, see ReaderOptions.Gather.
	gatherFor = 100 * time.Millisecond
)

// NewReader returns a Reader that begins at the record of the given offset. Nothing is
// connected before the first Fetch.
//
// An offset that the partition does not have is found by the first Fetch, see GapError and
// BeyondEndError.
func NewReader(c *Cluster, topic string, partition int, from int64, o ReaderOptions) *Reader {
	o.Wait = cmp.Or(o.Wait, 250*time.Millisecond)
	o.Bytes = cmp.Or(o.Bytes, 1<<20)
	o.Unpacked = cmp.Or(o.Unpacked, 32<<20)
	// Offsets are never negative, so -1 is not known.
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reader{cluster: c, topic: topic, partition: partition, o: o, asked: from, settled: leastSettled, decoder: recordbatch.NewDecoder(o.Unpacked)}
	r.next.Store(from)
	r.high.Store(-1)
	return r
}

// Next returns the offset at which the next Fetch begins.
func (r *Reader) Next() int64 { return r.next.Load() }

// HighWatermark returns the end of the partition by the last answer of the broker: the offset
// of the next record to be written. It is -1 before the first answer.
func (r *Reader) HighWatermark() int64 { return r.high.Load() }

// Trouble returns since when the broker does not answer as it should, and why. The
// error is nil when the last request was answered, and before the first.
func (r *Reader) Trouble() (since time.Time, err error) { return r.trouble.get() }

// SkipTo goes on at another offset.
//
// It clears the error that Fetch gave and may lead forward or back.
func (r *Reader) SkipTo(next int64) {
	r.final, r.damaged = nil, 0
	// What is read or on its way stays good when it leads to the new place.
	// Batches of rest that lie before next are stepped over by take.
	if next < r.next.Load() || next > r.asked {
		r.hangUp()
		r.rest, r.asked = nil, next
	}
	r.next.Store(next)
}

// Close closes the connection and lets go of the memory. A Fetch after it connects anew.
//
// The offset stays, so that an idle reader costs nothing but its place.
func (r *Reader) Close() error {
	r.hangUp()
	r.rest, r.asked = nil, r.next.Load()
	r.answer = nil
	r.decoder.Close()
	return nil
}

// hangUp drops the connection and any answer on its way.
//
// Such an answer would have to be read first, so the connection is useless for another
// question.
func (r *Reader) hangUp() {
	if r.link != nil {
		r.unwatch()
		r.link.Close()
	}
	r.link, r.watched, r.waiting = nil, nil, false
	if r.seat != nil {
		r.seat.fetch.leave(r.seat)
		r.seat = nil
	}
}

// watch makes the end of ctx close the connection, because reads do not know ctx. False means that the
// end of another one has closed it before.
func (r *Reader) watch(ctx context.Context) bool {
	if r.watched == ctx {
		return true
	}
	if r.watched != nil && !r.unwatch() {
		return false
	}
	l := r.link
	r.watched, r.unwatch = ctx, context.AfterFunc(ctx, func() { l.Close() })
	return true
}

// Fetch appends the next records to dst[:0] and returns them; their bytes are good until
// the next call of Fetch, SkipTo or Close. When there is none within Wait it returns
// none and no error. It asks again, and connects anew, as long as it takes: a broker
// that is away or refuses is no error, see Trouble; meanwhile a call ends after Wait, or
// after one attempt to connect. It fails with the error of ctx when that ends.
//
// The other errors are final for the offset at which the Reader stands, and come again
// until the caller goes on elsewhere by SkipTo: *GapError, *BeyondEndError, *BatchError.
func (r *Reader) Fetch(ctx context.Context, dst []Record) ([]Record, error) {
	dst = dst[:0]
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if r.final != nil {
		return dst, r.final
	}
	// What was unpacked before is given back to the next batch, unless it was out of the
	// ordinary: one huge batch does not cost its memory for ever.
	keep := 4 * r.o.Bytes
	r.decoder.Reset(keep)
	// As long as the last answer has batches, nothing is read from the broker.
	if len(r.rest) == 0 {
		if cap(r.answer) > keep {
			r.answer = nil
		}
		var err error
		if r.seat != nil {
			dst, err = r.follow(ctx, dst)
		} else {
			err = r.receive(ctx)
		}
		// An error of ctx is the caller's; all others are noted as trouble, and only those
		// that time does not heal are returned.
		if err != nil {
			if ctx.Err() != nil {
				r.hangUp()
				return dst, ctx.Err()
			}
			if r.final == nil {
				r.setBack(err)
			}
			return dst, r.final
		}
	}
	dst = r.take(dst)
	// Records that were read before an error are given first, and the error with the next
	// call.
	if len(dst) == 0 && r.final != nil {
		return dst, r.final
	}
	return dst, nil
}

// setBack notes that something is wrong with the connection, and drops it.
//
// The next attempt finds the leader anew, which may be another by then.
func (r *Reader) setBack(err error) {
	r.hangUp()
	r.asked = r.next.Load()
	if r.trouble.set(err) {
		r.o.Logger.Warn("partition cannot be read, trying on", "topic", r.topic, "partition", r.partition, "offset", r.next.Load(), "err", err)
	}
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	r.again = time.Now().Add(r.pause)
}

// receive gets an answer, connecting and asking before if need be. After nil, rest has
// what came, which may be nothing.
func (r *Reader) receive(ctx context.Context) error {
	if r.link != nil && !r.watch(ctx) {
		r.hangUp()
		r.asked = r.next.Load()
	}
	if r.link == nil {
		// A call does not sleep longer than Wait, so that the caller gets on with other work
		// while a broker is away.
		wait := time.Until(r.again)
		if err := pause(ctx, min(wait, r.o.Wait)); err != nil || wait > r.o.Wait {
			return err
		}
		l, err := r.cluster.leader(ctx, r.topic, r.partition)
		if err != nil {
			return err
		}
		r.link, r.behind = l, time.Now()
		r.watch(ctx)
	}
	l := r.link
	a, err := r.exchange()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return explain(l.addr, err)
	}
	// A partition that has moved to another broker, or a broker that is just starting, is
	// trouble like a lost connection.
	switch code := kafkago.Error(a.code); code {
	case 0:
	case kafkago.OffsetOutOfRange:
		return r.outOfRange(ctx, l)
	default:
		return explain(l.addr, code)
	}
	if since, was := r.trouble.clear(); was != nil {
		r.o.Logger.Info("partition can be read again", "topic", r.topic, "partition", r.partition, "offset", r.next.Load(), "after", time.Since(since).Round(time.Millisecond).String())
	}
	r.pause = 0
	r.high.Store(a.high)
	// Batches alias r.answer, which is not read into again before they are used up.
	r.rest = a.batches
	// The next answer is asked for before this one is unpacked.
	if r.link != nil {
		r.asked, r.rest = endOf(r.rest, r.asked)
		if r.sits() {
			return nil
		}
		// An error of the question is returned by the call that wants the answer.
		if err := r.ask(); err != nil {
			r.hangUp() // the next call will see to it
		}
	}
	return nil
}

// For how long a Reader has to be at the end of its partition until it is asked for together with
// others.
const (
	leastSettled = time.Second
	mostSettled  = time.Minute
)

// sits takes a seat among those who are at their ends, if it is time to, and reports whether it has one.
func (r *Reader) sits() bool {
	now := time.Now()
	if r.high.Load() > r.asked || r.o.Gather != nil && r.o.Gather() {
		r.behind = now
	}
	if now.Sub(r.behind) < r.settled || r.o.Ahead == nil || !r.unwatch() {
		return false
	}
	r.seat = r.cluster.sit(r, r.link)
	r.link, r.watched, r.waiting = nil, nil, false
	return true
}

// pause waits for d, or until ctx ends, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// endOf returns the offset behind the whole batches of b, and b without the beginning of
// a batch behind them: a broker cuts off where the answer is full.
//
// It looks at heads alone and checks nothing.
func endOf(b []byte, from int64) (end int64, cut []byte) {
	for left := b; ; {
		t, rest, whole := recordbatch.Cut(left)
		if !whole {
			if len(left) < len(b) {
				b = b[:len(b)-len(left)]
			}
			return from, b
		}
		// In a compacted topic a batch keeps its last offset, though records of it are gone.
		from = max(from, t.Last+1)
		left = rest
	}
}

// ask sends a request for what begins at asked.
//
// The deadline is for writing: a broker that takes no bytes is as good as gone.
func (r *Reader) ask() error {
	l := r.link
	l.id++
	// Whatever there is, is sent at once, and only an empty partition is waited at.
	wait, least := r.o.Wait, 1
	if r.o.Gather != nil && r.o.Gather() {
		wait, least = min(wait, gatherFor), r.o.Bytes/2
	}
	// The same bound for the answer and for the partition, which is the only one.
	r.request = appendFetch(r.request[:0], l.id, l.client, wait, int32(least), int32(r.o.Bytes),
		fetchRange{r.topic, int32(r.partition), r.asked, int32(r.o.Bytes)})
	if err := l.SetWriteDeadline(time.Now().Add(l.patience)); err != nil {
		return err
	}
	_, err := l.Write(r.request)
	r.waiting = err == nil
	return err
}

// exchange reads the answer that is under way, or asks first.
func (r *Reader) exchange() (fetchedPart, error) {
	if !r.waiting {
		if err := r.ask(); err != nil {
			return fetchedPart{}, err
		}
	}
	l := r.link
	// A broker that throttles its clients reads again only after the time that it
	// returned.
	if err := l.SetReadDeadline(time.Now().Add(r.o.Wait + r.throttle + l.patience)); err != nil {
		return fetchedPart{}, err
	}
	// Until the whole answer is read, a fault leaves the connection between two answers, and
	// setBack drops it.
	r.waiting = false
	size, err := l.length()
	if err != nil {
		return fetchedPart{}, err
	}
	// A first batch comes whole, be it ever so large. Of one that is beyond the limit only
	// the beginning is read, which says where it ends.
	whole := size <= r.o.Unpacked+r.o.Bytes
	// Enough for the head of the answer and that of its first batch: take then refuses the
	// batch by name and goes on behind it.
	if !whole {
		size = recordbatch.HeadSize + 1024
	}
	if err := r.read(size); err != nil {
		return fetchedPart{}, err
	}
	a, err := parseFetch(r.answer)
	// An answer to another question would be given for other offsets.
	if err == nil && a.id != l.id {
		err = errAnswer
	}
	r.throttle = a.throttle
	p := fetchedPart{code: a.code}
	if err == nil && a.code == 0 {
		p, err = a.only()
	}
	if !whole {
		// Unread bytes of the answer would precede the next one.
		r.hangUp()
	}
	return p, err
}

// read reads size bytes. Memory grows with what comes, not with what is announced.
//
// A broker that is none, or damage on the way, may announce any size.
func (r *Reader) read(size int) error {
	r.answer = r.answer[:0]
	for len(r.answer) < size {
		if len(r.answer) == cap(r.answer) {
			// Doubled each time, from a little more than what was asked for, since heads come
			// on top.
			r.answer = slices.Grow(r.answer, min(size-len(r.answer), max(len(r.answer), r.o.Bytes+4<<10)))
		}
		room := r.answer[len(r.answer):min(size, cap(r.answer))]
		n, err := io.ReadFull(r.link, room)
		r.answer = r.answer[:len(r.answer)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// outOfRange finds out on which side the offset lies outside the partition.
//
// The broker says no more than that the offset is not there. Between its answer and this
// question the record may have come or gone.
func (r *Reader) outOfRange(ctx context.Context, l *link) error {
	next := r.next.Load()
	first, end, err := l.bounds(ctx, r.topic, r.partition)
	switch {
	case err != nil:
		return err
	case next < first:
		r.final = &GapError{Topic: r.topic, Partition: r.partition, From: next, To: first}
	case next > end:
		r.final = &BeyondEndError{Topic: r.topic, Partition: r.partition, Next: next, End: end}
	default:
		// Retention has gone on, or the record was written meanwhile: the next Fetch asks
		// again.
		return fmt.Errorf("broker %s: %w", l.addr, kafkago.OffsetOutOfRange) // it is there now
	}
	// The partition can be read, though not here.
	r.trouble.clear()
	return r.final
}

// take appends the records of rest, as far as Fetch gives at once.
//
// It stops at 65,536 records or twice Bytes of unpacked memory, between batches. A batch that
// was sent together is never cut.
func (r *Reader) take(dst []Record) []Record {
	for len(r.rest) > 0 && len(dst) < maxRecords && r.decoder.Unpacked() < 2*r.o.Bytes {
		t, rest, whole := recordbatch.Cut(r.rest)
		next := r.next.Load()
		if !whole {
			// What the broker cut off at the end is gone already; this is the first batch.
			r.rest = nil
			switch {
			// Not even a head is there: the answer is none.
			case t.Offset < 0:
				r.setBack(fmt.Errorf("topic %s: %w", r.topic, errAnswer))
			// What there is of it does not reach the end: it is too large to be read whole.
			case t.Last >= next:
				r.refuse(&t, fmt.Errorf("%w of %d bytes even as it is", ErrTooLarge, r.o.Unpacked))
			}
			return dst
		}
		// Batches from before next come because a broker gives whole ones; marks of
		// transactions are counted as read and never given.
		if t.Last < next || t.Control() {
			r.rest = rest
			r.next.Store(max(next, t.Last+1))
			continue
		}
		start := len(dst)
		var err error
		if dst, err = r.decoder.Append(dst, &t, next); err != nil {
			// Records of the batch that were read before the fault are not given: it is whole
			// or refused.
			dst = dst[:start]
			if start > 0 {
				return dst // the next call comes to it again
			}
			// Damage that was done on the way is gone when the batch is read again; damage on
			// the broker's disk is not.
			if errors.Is(err, recordbatch.ErrChecksum) && r.damaged < maxDamaged {
				r.damaged++
				r.rest = nil
				r.setBack(fmt.Errorf("topic %s: the batch at offset %d: %w", r.topic, t.Offset, err))
				return dst
			}
			r.refuse(&t, err)
			return dst
		}
		r.damaged = 0
		if err := r.translate(dst[start:]); err != nil {
			dst = dst[:start]
			if start == 0 {
				r.rest = nil
				r.setBack(err)
			}
			return dst
		}
		r.rest = rest
		r.next.Store(t.Last + 1)
	}
	return dst
}

// translate puts JSON in place of values that need a schema.
func (r *Reader) translate(records []Record) error {
	if r.cluster.Values == nil {
		return nil
	}
	for i := range records {
		if err := r.cluster.Values(&records[i], r.o.Logger); err != nil {
			return fmt.Errorf("topic %s: the record at offset %d: %w", r.topic, records[i].Offset, err)
		}
	}
	return nil
}

// refuse makes the batch one that the caller must step over.
func (r *Reader) refuse(t *recordbatch.Batch, err error) {
	r.final = &BatchError{Topic: r.topic, Partition: r.partition, Offset: t.Offset, Next: t.Last + 1, Err: err}
}
