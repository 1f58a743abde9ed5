package main

import (
	"context"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/misnamed"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
)

// eventsCommand is weir events: logs are read and nothing is judged. The three commands under
// it read by the same adapters as replay, ingest and a running weir, so what passes here
// passes there.
func eventsCommand() cli.Command {
	return cli.Command{Name: "events", Short: "check, convert and describe logs of agents", Commands: []cli.Command{
		{
			Name: "validate", Args: "FILE...|-", Wants: cli.Wants(1, -1, "a FILE"), Short: "check that events can be read",
			Long: `Reads events strictly and lists each one that weir would reject, with the reason.
Without --format the files hold weir's own events, one JSON object per line. The exit
code is 3 if any was rejected.`,
			Examples: []string{"weir events validate events.jsonl", "my-producer | weir events validate -"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				reading := newReading(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					// Validation is for weir's own format. Detection would take a
					// broken log for one of another program.
					if reading.format.Value == "" {
						reading.format.Value = canonical.Format().Name
					}
					return validateEvents(env, reading, args)
				}
			},
		},
		{
			Name: "convert", Args: "FILE...|-", Wants: cli.Wants(1, -1, "a FILE"), Short: "print any log as events of weir's own format",
			Long: `Prints one event per line, in the order in which weir replay folds them. Events contain
hashes and fingerprints, and no content of messages, arguments or results. The exit code
is 3 if a record could not be read.`,
			Examples: []string{"weir events convert session.jsonl > events.jsonl", "weir events convert --map flow=.run,from=.sender.id,to=.target calls.jsonl"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				reading := newReading(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					return convertEvents(env, reading, args)
				}
			},
		},
		{
			Name: "describe", Args: "[SOURCE]", Wants: cli.Wants(0, 1, "the name of one SOURCE"), Short: "print what each source reports, and which rules are off for it", Words: sourceNames,
			Long: `Lists the programs and libraries whose logs weir reads. With a source, a format, or a
mapping (map:FIELD=PATH,...), it prints how to set it up, what its logs report, and
which rules are off for it, and why. With guard it lists which rules can judge by the
fields that a caller passes.`,
			Examples: []string{"weir events describe", "weir events describe guard", "weir events describe openinference", "weir events describe map:flow=.id,to=.agent"},
			Setup: func(*pflag.FlagSet) cli.Run {
				return func(_ context.Context, env *cli.Env, args []string) error {
					return describeSources(env, args)
				}
			},
		},
	}}
}

// readAll reads the files and says, besides what the callbacks do, how many records
// were refused.
//
// event and bad are called from this goroutine, in the order of the log; an event belongs
// to the reader and is good until the call returns. An error of event ends the reading; the
// first of bad is kept until the end, because refused records must not hide those behind them.
// near may have seen nothing when it ends.
func (r *reading) readAll(env *cli.Env, args []string, event func(*events.Event) error, bad func(logs.BadRecord) error, near *misspelled) (read, refused int64, err error) {
	// All of them are opened first, so that a wrong name is reported before anything is
	// read.
	inputs, err := r.open(env, args)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll(inputs)
	progress := env.Progress("events")
	var failed error
	rd := &logs.Reader{
		Inputs: inputs,
		Event:  func(ev *events.Event) error { read++; return event(ev) },
		Bad: func(b logs.BadRecord) {
			refused++
			// The output is broken: what comes after is still counted and no more printed.
			if failed == nil {
				failed = bad(b)
			}
		},
		Tick:   progress.At,
		Broken: func(err error) { r.leave(env, err) },
		Whole:  near.at,
		Own:    near.Look,
		Unread: r.notUnderstood,
	}
	err = rd.Read()
	progress.Done()
	// What ended the reading goes before what only broke the output.
	if err == nil {
		err = failed
	}
	return read, refused, err
}

// misspelled warns of names that are ignored and near to known ones, the first few one by one.
//
// The format of events ignores unknown members, so that newer producers work with older
// weirs. A misspelled member would silence rules without a word.
type misspelled struct {
	misnamed.Lookout
	env  *cli.Env
	n    int64
	file string // that is read
	line int
}

// newMisspelled returns what looks at the events of files; every one, or those that lack what
// rules need.
//
// The embedded Lookout gets whole records from the reader (Own), and at gives their
// position.
func newMisspelled(env *cli.Env, every bool) *misspelled {
	m := &misspelled{env: env}
	m.Every = every
	m.Report = func(_ *events.Event, near events.Nearby) {
		if m.n++; m.n <= namedRefusals {
			env.Notice("%s:%d: %s is not a known name and is ignored; is %s meant?", m.file, m.line, near.Name, near.Meant)
		}
	}
	return m
}

// at notes where the next record is, for reports about it. Such files are
// never read ahead of their turn, so one place is enough.
func (m *misspelled) at(in *logs.Input, r adapter.Record) { m.file, m.line = in.Name, r.Line }

// rest prints how many there are beside those that were reported.
func (m *misspelled) rest() {
	if n := m.n - namedRefusals; n > 0 {
		m.env.Notice("and %s more with names that may be misspelled", cli.Count(n, "event"))
	}
}

// validateEvents prints each refused record and ends with a finding when there was one. Events
// that pass are not kept: files may be of any size.
func validateEvents(env *cli.Env, reading *reading, args []string) error {
	lines := cli.NewLines(env, func(b *logs.BadRecord) []cli.Cell {
		return []cli.Cell{{Text: b.Place()}, {Text: b.Code, Paint: cli.Bad}, {Text: b.Reason}}
	}, "RECORD", "CODE", "REASON")
	near := newMisspelled(env, true)
	read, refused, err := reading.readAll(env, args, func(*events.Event) error { return nil }, func(b logs.BadRecord) error { return lines.Print(&b) }, near)
	if err != nil {
		return err
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	near.rest()
	env.Notice("%s read, %s refused", cli.Count(read, "event"), cli.Count(refused, "record"))
	// A refused record and a file that could not be read end with the same code. done is also
	// called when the code is known, because it prints notices.
	if err = reading.done(env); refused > 0 {
		err = cli.Exit(cli.CodeFinding)
	}
	return err
}

// convertEvents prints all events that can be read, one a line, also when others cannot: the
// exit code shows that.
func convertEvents(env *cli.Env, reading *reading, args []string) error {
	var line []byte
	var bad refusals
	near := newMisspelled(env, false)
	// One buffer for all lines; each goes out whole, so a pipe that breaks ends the reading at
	// once.
	_, refused, err := reading.readAll(env, args, func(ev *events.Event) error {
		line = append(ev.AppendJSON(line[:0]), '\n')
		_, err := env.Out.Write(line)
		return err
	}, func(b logs.BadRecord) error {
		bad.add(b)
		return nil
	}, near)
	bad.notice(env)
	near.rest()
	if err != nil {
		return err
	}
	if err = reading.done(env); refused > 0 {
		err = cli.Exit(cli.CodeFinding)
	}
	return err
}
