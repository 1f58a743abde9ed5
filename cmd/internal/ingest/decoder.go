// Package ingest moves raw records from topics or files through envelopes and adapters to the topic of events.
//
// Exactly once per record, as far as ids allow: an event has the same id wherever and
// whenever its record is read, and the fold drops what it has seen. So it is enough that
// none is lost: the place in a raw topic is committed only after the events before it
// are acknowledged, and never beyond a record that an adapter still holds back. After a
// crash the records from there on are read again by a new adapter, which makes the same
// events of them.
package ingest

import (
	"errors"
	"fmt"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/registry"
	"weir/events/envelope"
)

// DecoderOptions are how records are decoded. The zero value is good.
// With a format, what fits another one is not looked for: who names it knows better.
type DecoderOptions struct {
	Format     string                                // name of the format of all records; "" detects it by content
	IgnoreArgs adapter.IgnoreArgs                    // see adapter.Options
	Own        func(record []byte, ev *events.Event) // see adapter.Options
	// Changed is called when records of another format or wrapping than before have come;
	// may be nil.
	Changed func(format, wrapping string)
}

// Decoder makes events of the records of one log, whose formats may differ. It is for
// one goroutine.
type Decoder struct {
	o     DecoderOptions
	known map[string]*reading
	// last is the format of the record before; with a format in the options it is always
	// that.
	last    *reading
	wrapped map[string]bool // format and wrapping that were reported
}

// reading is one format that has come.
// Its adapter lives as long as the decoder: what was said earlier decides what comes later.
type reading struct {
	format  adapter.Format
	adapter adapter.Adapter
	keeper  adapter.Keeper // nil when the adapter does not report what it needs
	// held is set with each record and cleared by Flush. It may be true although nothing is
	// held back.
	held bool // something may be held back
}

// forgets reports whether an adapter needs nothing of what was before.
func (r *reading) forgets() bool { return r.format.Name == canonical.Format().Name }

// NewDecoder returns a decoder; the error is that of a format that is not known.
// It remembers nothing of earlier records. A caller that goes on in a log reads back first,
// see Lookback and Oldest.
func NewDecoder(o DecoderOptions) (*Decoder, error) {
	d := &Decoder{o: o, known: make(map[string]*reading), wrapped: make(map[string]bool)}
	if d.o.Changed == nil {
		d.o.Changed = func(string, string) {}
	}
	if o.Format == "" {
		return d, nil
	}
	format, err := registry.Lookup(o.Format)
	if err != nil {
		return nil, err
	}
	d.last = d.use(format)
	return d, nil
}

// use returns the one adapter of a format.
func (d *Decoder) use(format adapter.Format) *reading {
	r, ok := d.known[format.Name]
	if !ok {
		r = &reading{format: format, adapter: format.New(adapter.Options{IgnoreArgs: d.o.IgnoreArgs, Own: d.o.Own})}
		r.keeper, _ = r.adapter.(adapter.Keeper)
		d.known[format.Name] = r
	}
	return r
}

// headBytes is how much of a record is used to detect its format.
const headBytes = 4 << 10

// find detects the format of a record by its content. The format of the record before is tried
// first: it is usually the same, and formats that fit for certain exclude each other.
// The error is a *FormatError.
func (d *Decoder) find(record []byte) (*reading, error) {
	if d.o.Format != "" {
		return d.last, nil
	}
	head := record[:min(len(record), headBytes)]
	if d.last != nil && d.last.format.Score(&adapter.Head{Bytes: head}) == adapter.Certain {
		return d.last, nil
	}
	format, err := registry.Detect(head)
	// Few formats show only further on what they are, so the rest is looked at only then.
	if errors.Is(err, registry.ErrUnknown) && len(record) > len(head) {
		format, err = registry.Detect(record[:min(len(record), adapter.HeadSize)])
	}
	if err != nil {
		return nil, &FormatError{err}
	}
	return d.use(format), nil
}

// FormatError says that a record fits no format, or several.
type FormatError struct{ Err error }

// Error returns the names of the formats.
func (e *FormatError) Error() string { return e.Err.Error() }

// Unwrap returns registry.ErrUnknown or registry.ErrAmbiguous, wrapped.
func (e *FormatError) Unwrap() error { return e.Err }

// Decode decodes the record at a place of the log; places grow. The event that emit gets
// is valid until emit returns. A record without a value reports nothing and is no error. The
// other errors say why a record, or a part of it, cannot be read: a *events.DecodeError
// or a *FormatError, wrapped or not.
// An envelope is what a connector or another program has put around a record. Decode removes
// it, and reports its kind once for each format.
func (d *Decoder) Decode(place int64, m envelope.Message, emit func(*events.Event)) error {
	c, err := envelope.Open(m)
	if errors.Is(err, envelope.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := d.find(c.Bytes)
	if err != nil {
		return err
	}
	// The bound is there for senders who make up wrappings.
	if key := r.format.Name + " " + c.Wrapping; !d.wrapped[key] && len(d.wrapped) < 64 {
		d.wrapped[key] = true
		d.o.Changed(r.format.Name, c.Wrapping)
	}
	d.last = r
	r.held = !r.forgets()
	if r.keeper != nil {
		r.keeper.At(place)
	}
	return adapter.DecodeWhole(r.adapter, c.Bytes, emit)
}

// Held reports whether something may be held back.
// When it is false, the place behind the last record may be committed.
func (d *Decoder) Held() bool {
	for _, r := range d.known {
		if r.held {
			return true
		}
	}
	return false
}

// Flush emits what is held back. Records that explain it are late afterwards.
func (d *Decoder) Flush(emit func(*events.Event)) error {
	for _, r := range d.known {
		r.held = false
		if err := r.adapter.Flush(emit); err != nil {
			return fmt.Errorf("tell what was held back of %s: %w", r.format.Name, err)
		}
	}
	return nil
}

// Oldest returns the place from which records have to be read again after a crash; next is the
// first place that was not decoded yet.
// Formats without a Keeper do not report their place and are left out: for these Lookback is read
// again.
func (d *Decoder) Oldest(next int64) int64 {
	for _, r := range d.known {
		if r.keeper == nil {
			continue
		}
		if place, needed := r.keeper.Oldest(); needed {
			next = min(next, place)
		}
	}
	return next
}

// Lookback is how many records before the committed place are read again for adapters
// that remember earlier records and do not report how far back.
const Lookback = 2000

// Skips reports whether a record before the committed place need not be decoded again:
// its format remembers nothing, or said with the commit how far back it does.
func (d *Decoder) Skips(m envelope.Message) bool {
	c, err := envelope.Open(m)
	if err != nil {
		return true // it was reported
	}
	r, err := d.find(c.Bytes)
	return err != nil || r.forgets() || r.keeper != nil
}
