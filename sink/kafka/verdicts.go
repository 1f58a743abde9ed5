package kafka

import (
	"bytes"
	"context"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
	eventkafka "weir/events/kafka"
	"weir/sink/sign"
)

// The name is part of the format that consumers read.
const triggerHeader = "weir-trigger"

// Verdicts is the log of verdicts of one partition. The key of a record is the scope,
// kind:id, its value the verdict as JSON; the header weir-trigger is the offset of the
// event that brought it about, and weir-order-signature its signature, if it has one. It
// is for one goroutine.
type Verdicts struct {
	log  *Producer
	now  func() time.Time
	sign func(verdict []byte) string // nil: nothing is signed

	// What follows is memory that is used again.
	msgs    []Message
	headers []kafkago.Header
	text    []byte // what the messages are made of
}

// keptText is the most of text that is kept for the next Emit.
const keptText = 4 << 20

// NewVerdicts returns the log of verdicts that the producer writes. The clock gives
// records the time of their publication.
func NewVerdicts(log *Producer, now func() time.Time) *Verdicts { return &Verdicts{log: log, now: now} }

// Signed lets fn sign verdicts, and returns v. fn returns the signature of a verdict; with
// "" it stays unsigned.
// It is called before the first Emit. fn is asked with the exact bytes of the value.
func (v *Verdicts) Signed(fn func(verdict []byte) string) *Verdicts {
	v.sign = fn
	return v
}

// Emit writes verdicts and returns the offset after the last of them when the brokers
// keep them. Called again with the same verdicts after an error it writes none twice.
// It fails as Producer.Append does.
func (v *Verdicts) Emit(ctx context.Context, verdicts []events.Emitted) (end int64, err error) {
	now := events.StampOf(v.now())
	// All messages are cut from one text: a batch of a thousand verdicts asks for memory a few
	// times.
	msgs, headers, text := v.msgs[:0], v.headers[:0], v.text[:0]
	since := func(start int) []byte { return text[start:len(text):len(text)] }
	for i := range verdicts {
		e := &verdicts[i]
		start := len(text)
		text = append(append(append(text, e.Verdict.Scope.Kind...), ':'), e.Verdict.Scope.ID...)
		m := Message{Key: since(start), Time: now}
		start = len(text)
		text = e.Verdict.AppendJSON(text)
		m.Value = since(start)
		start = len(text)
		text = strconv.AppendInt(text, e.Offset, 10)
		first := len(headers)
		headers = append(headers, kafkago.Header{Key: triggerHeader, Value: since(start)})
		// The signature is made on the way out and never of other bytes than these, see
		// decision 45.
		if v.sign != nil {
			if signature := v.sign(m.Value); signature != "" {
				headers = append(headers, kafkago.Header{Key: sign.RecordHeader, Value: []byte(signature)})
			}
		}
		m.Headers = headers[first:len(headers):len(headers)]
		msgs = append(msgs, m)
	}
	_, err = v.log.Append(ctx, msgs)
	clear(msgs)
	clear(headers)
	v.msgs, v.headers = msgs, headers
	// One batch of very long verdicts must not keep its memory for ever.
	if v.text = text; cap(text) > keptText {
		v.text = nil
	}
	return v.log.end, err
}

// IsVerdict reports whether a record with a value may stand among the verdicts that weir shows:
// it names its trigger, as all do that Emit writes, and is a text of one line that is not longer
// than a verdict may be. Of what a stranger has written the one might be sent to viewers as
// several messages, and the other is more than a store takes.
func IsVerdict(r *eventkafka.Record) bool {
	_, ok := number(r, triggerHeader)
	return ok && len(r.Value) <= events.MaxVerdictBytes && !bytes.ContainsAny(r.Value, "\r\n")
}

// Since calls fn with the id and the trigger of each verdict that earlier owners have
// left from an offset on, and returns the offset after them. Verdicts that have expired
// and records that are none are left out. An offset behind the end of the log is a
// *eventkafka.BeyondEndError: the topic was created anew.
// What is there already is not written again (see decision 16).
func (v *Verdicts) Since(ctx context.Context, from int64, fn func(id string, trigger int64)) (end int64, err error) {
	return v.log.since(ctx, from, func(r *eventkafka.Record) {
		trigger, ok := number(r, triggerHeader)
		// A mark of an owner has no value.
		if !ok || r.Value == nil {
			return
		}
		var verdict events.Verdict
		if events.DecodeVerdict(r.Value, &verdict) == nil {
			fn(verdict.ID, trigger)
		}
	})
}
