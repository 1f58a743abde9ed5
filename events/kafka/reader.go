package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
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
type ReaderOptions struct {
	Wait     time.Duration // longest wait for a first record; default 250 ms
	Bytes    int           // about how much is asked of the broker at once; default 1 MiB
	Unpacked int           // largest batch of records, unpacked; default 32 MiB
	Logger   *slog.Logger  // told when the broker is lost and found again; nil: nobody
}

// Reader reads one partition in order from an offset on. It has no goroutine; while
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
type Reader struct {
	cluster   *Cluster
	topic     string
	partition int
	o         ReaderOptions

	link     *link
	asked    int64  // from where the answer that is under way begins, or would
	waiting  bool   // an answer is under way
	request  []byte // memory of the last one
	answer   []byte // memory of the last one
	rest     []byte // batches of the answer that are still to be unpacked
	decoder  *recordbatch.Decoder
	throttle time.Duration
	damaged  int   // answers in a row whose first batch had a wrong checksum
	final    error // what the caller must step over
	pause    time.Duration
	again    time.Time // not to connect before

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
)

// NewReader returns a Reader that begins at the record of the given offset. Nothing is
// connected before the first Fetch.
func NewReader(c *Cluster, topic string, partition int, from int64, o ReaderOptions) *Reader {
	o.Wait = cmp.Or(o.Wait, 250*time.Millisecond)
	o.Bytes = cmp.Or(o.Bytes, 1<<20)
	o.Unpacked = cmp.Or(o.Unpacked, 32<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reader{cluster: c, topic: topic, partition: partition, o: o, asked: from, decoder: recordbatch.NewDecoder(o.Unpacked)}
	r.next.Store(from)
	r.high.Store(-1)
	return r
}

// Next returns the offset at which the next Fetch begins.
func (r *Reader) Next() int64 { return r.next.Load() }

// HighWatermark returns the end of the partition, as the last answer of the broker told
// it: the offset that the next record to be written gets. It is -1 before the first.
func (r *Reader) HighWatermark() int64 { return r.high.Load() }

// Trouble returns since when the broker does not answer as it should, and why. The
// error is nil when the last request was answered, and before the first.
func (r *Reader) Trouble() (since time.Time, err error) { return r.trouble.get() }

// SkipTo goes on at another offset.
func (r *Reader) SkipTo(next int64) {
	r.final, r.damaged = nil, 0
	// What is read or on its way stays good when it leads to the new place.
	if next < r.next.Load() || next > r.asked {
		r.hangUp()
		r.rest, r.asked = nil, next
	}
	r.next.Store(next)
}

// Close closes the connection and lets go of the memory. A Fetch after it connects anew.
func (r *Reader) Close() error {
	r.hangUp()
	r.rest, r.asked = nil, r.next.Load()
	r.answer = nil
	r.decoder.Close()
	return nil
}

// hangUp forgets the connection and what is on its way.
func (r *Reader) hangUp() {
	if r.link != nil {
		r.link.Close()
	}
	r.link, r.waiting = nil, false
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
	keep := 4 * r.o.Bytes
	r.decoder.Reset(keep)
	if len(r.rest) == 0 {
		if cap(r.answer) > keep {
			r.answer = nil
		}
		if err := r.receive(ctx); err != nil {
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
	if len(dst) == 0 && r.final != nil {
		return dst, r.final
	}
	return dst, nil
}

// setBack notes that something is wrong with the connection, and drops it.
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
	if r.link == nil {
		wait := time.Until(r.again)
		if err := pause(ctx, min(wait, r.o.Wait)); err != nil || wait > r.o.Wait {
			return err
		}
		l, err := r.cluster.leader(ctx, r.topic, r.partition)
		if err != nil {
			return err
		}
		r.link = l
	}
	l := r.link
	stop := context.AfterFunc(ctx, func() { l.Close() })
	a, err := r.exchange()
	if !stop() {
		return ctx.Err()
	}
	if err != nil {
		return explain(l.addr, err)
	}
	r.throttle = a.throttle
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
	r.rest = a.batches
	// The next answer is asked for before this one is unpacked.
	if r.link != nil {
		r.asked, r.rest = endOf(r.rest, r.asked)
		if err := r.ask(); err != nil {
			r.hangUp() // the next call will see to it
		}
	}
	return nil
}

// pause waits.
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
func endOf(b []byte, from int64) (end int64, cut []byte) {
	for left := b; ; {
		t, rest, whole := recordbatch.Cut(left)
		if !whole {
			if len(left) < len(b) {
				b = b[:len(b)-len(left)]
			}
			return from, b
		}
		from = max(from, t.Last+1)
		left = rest
	}
}

// ask sends a request for what begins at asked.
func (r *Reader) ask() error {
	l := r.link
	l.id++
	r.request = appendFetch(r.request[:0], l.id, l.client, r.topic, int32(r.partition), r.asked, r.o.Wait, int32(r.o.Bytes))
	if err := l.SetWriteDeadline(time.Now().Add(l.patience)); err != nil {
		return err
	}
	_, err := l.Write(r.request)
	r.waiting = err == nil
	return err
}

// exchange reads the answer that is under way, or asks first.
func (r *Reader) exchange() (fetched, error) {
	if !r.waiting {
		if err := r.ask(); err != nil {
			return fetched{}, err
		}
	}
	l := r.link
	// A broker that sets limits to its clients listens again only after the time that it
	// told.
	if err := l.SetReadDeadline(time.Now().Add(r.o.Wait + r.throttle + l.patience)); err != nil {
		return fetched{}, err
	}
	r.waiting = false
	var head [4]byte
	if _, err := io.ReadFull(l, head[:]); err != nil {
		return fetched{}, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < 0 {
		return fetched{}, errAnswer
	}
	// A first batch comes whole, be it ever so large. Of one that is beyond the limit only
	// the beginning is read, which says where it ends.
	whole := size <= int64(r.o.Unpacked+r.o.Bytes)
	if !whole {
		size = recordbatch.HeadSize + 1024
	}
	if err := r.read(int(size)); err != nil {
		return fetched{}, err
	}
	a, err := parseFetch(r.answer)
	if err == nil && a.id != l.id {
		err = errAnswer
	}
	if !whole {
		r.hangUp()
	}
	return a, err
}

// read reads size bytes. Memory grows with what comes, not with what is announced.
func (r *Reader) read(size int) error {
	r.answer = r.answer[:0]
	for len(r.answer) < size {
		if len(r.answer) == cap(r.answer) {
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
		return fmt.Errorf("broker %s: %w", l.addr, kafkago.OffsetOutOfRange) // it is there now
	}
	r.trouble.clear()
	return r.final
}

// take appends the records of rest, as far as Fetch gives at once.
func (r *Reader) take(dst []Record) []Record {
	for len(r.rest) > 0 && len(dst) < maxRecords && r.decoder.Unpacked() < 2*r.o.Bytes {
		t, rest, whole := recordbatch.Cut(r.rest)
		next := r.next.Load()
		if !whole {
			// What the broker cut off at the end is gone already; this is the first batch.
			r.rest = nil
			switch {
			case t.Offset < 0:
				r.setBack(fmt.Errorf("topic %s: %w", r.topic, errAnswer))
			case t.Last >= next:
				r.refuse(&t, fmt.Errorf("%w of %d bytes even as it is", ErrTooLarge, r.o.Unpacked))
			}
			return dst
		}
		if t.Last < next || t.Control() {
			r.rest = rest
			r.next.Store(max(next, t.Last+1))
			continue
		}
		start := len(dst)
		var err error
		if dst, err = r.decoder.Append(dst, &t, next); err != nil {
			dst = dst[:start]
			if start > 0 {
				return dst // the next call comes to it again
			}
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
		r.rest = rest
		r.next.Store(t.Last + 1)
	}
	return dst
}

func (r *Reader) refuse(t *recordbatch.Batch, err error) {
	r.final = &BatchError{Topic: r.topic, Partition: r.partition, Offset: t.Offset, Next: t.Last + 1, Err: err}
}
