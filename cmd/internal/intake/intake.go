package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
	"weir/events/jsonl"
	"weir/sink/prom"
	"weir/state"
)

// Follow is one file to read events from.
// A path may be a folder or a pattern; then all files in it are followed, see fileSet.
type Follow struct {
	Path   string // "-" is the standard input
	Format string // name of an adapter's format; "" finds out by the first records
}

// Log is where events go.
type Log interface {
	// Append returns when the events are safe there. It may be called again after an
	// error: repeats are dropped by their ids.
	// The values are the caller's again when it returns.
	Append(ctx context.Context, entries []state.Entry) error
}

// Store keeps how far files were read, and what could not be.
// DeadLetter returns when they are on the disk; state.ErrDiskLow passes by itself.
type Store interface {
	Cursor(name string) ([]byte, bool, error)
	SetCursor(name string, value []byte) error
	DeadLetter(deadLetters ...state.DeadLetter) error
}

// Options are what an intake works with.
type Options struct {
	Follow   []Follow // files, pipes, folders and patterns to read events from
	StateDir string   // where received records are kept until they are in the log; "" keeps them in memory

	Log         Log
	Store       Store
	DeadLetters *DeadLetters
	Trust       gate.Trust // who is believed that a user has spoken
	Counts      *pump.Counts
	Own         func(record []byte, ev *events.Event) // see adapter.Options
	Clock       clock.Clock
	Logger      *slog.Logger

	// Limits are those in force. They name the arguments of tools that do not distinguish calls.
	Limits func() *analyzer.Limits
	// Fail is called with an error after which the program cannot continue. It ends the program in
	// order, and is called for errors that no waiting resolves.
	Fail func(error)
}

// Intake reads files and takes what programs send. Make it with Open, then Run, then Close.
// The receiver is there also when nothing is followed.
type Intake struct {
	o        Options
	files    []*follower
	folders  []*fileSet
	receiver *Receiver
}

// Open looks at the files, so that an unknown format is reported at the start. It also reads the spool
// and passes its records to new adapters, but appends nothing to the log before Run.
func Open(o Options) (_ *Intake, err error) {
	in := &Intake{o: o}
	defer func() {
		if err != nil {
			_ = in.Close() // nothing was read yet
		}
	}()
	for _, spec := range o.Follow {
		// A named file that cannot be followed ends the start, because the operator named it. One of
		// many in a folder is only skipped.
		if !jsonl.IsPattern(spec.Path) {
			f, err := newFollower(in, spec, nil)
			if err != nil {
				return nil, err
			}
			in.files = append(in.files, f)
			continue
		}
		if _, err := registry.Lookup(spec.Format); spec.Format != "" && err != nil {
			return nil, fmt.Errorf("follow %s: %w", spec.Path, err)
		}
		in.folders = append(in.folders, newFileSet(in, spec))
	}
	in.receiver, err = openReceiver(in)
	return in, err
}

// Run starts to read. The log takes events by now.
// Each has a goroutine of its own, which the phase ends. When one fails, the program does.
func (in *Intake) Run(p *phase.Phase) {
	p.Run("receiver", in.receiver.run)
	for _, d := range in.folders {
		p.Run("follow "+d.spec.Path, d.run)
	}
	for _, f := range in.files {
		p.Run("follow "+f.path, f.run)
	}
}

// Receiver takes the records that programs send.
func (in *Intake) Receiver() *Receiver { return in.receiver }

// States says how the following of each file goes.
// Any goroutine may call it.
func (in *Intake) States() (out []Status) {
	for _, f := range in.files {
		out = append(out, f.state())
	}
	for _, d := range in.folders {
		out = append(out, d.states()...)
	}
	return out
}

// Close closes the files. Nothing may run any more.
// Files of folders were closed by the goroutines that read them.
func (in *Intake) Close() (err error) {
	for _, f := range in.files {
		err = errors.Join(err, f.tail.Close())
	}
	if in.receiver != nil {
		err = errors.Join(err, in.receiver.spool.Close())
	}
	return err
}

// adapter returns a new adapter of a format. It ignores the arguments that do not distinguish calls,
// by the limits in force when it reads a call.
func (in *Intake) adapter(format adapter.Format) adapter.Adapter {
	return format.New(adapter.Options{
		// Asked for each call, since limits may change while a file is followed.
		IgnoreArgs: func(tool string) []string { return in.o.Limits().IgnoredArgs(tool) },
		Silent: func(why adapter.Silence) {
			in.o.Counts.Count(func(n *prom.Counters) { n.Silent[why]++ })
		},
		Own: in.o.Own,
	})
}
