package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/ingest"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/misnamed"
	"weir/cmd/internal/operate"
	"weir/events"
	"weir/events/adapter"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// ingestCommand is weir ingest: it makes events of raw logs and judges nothing. It runs beside
// the weirs and may be stopped and started again at any time. A record gives events with the
// same ids each time that it is read (see decision 6 for how repeats are recognized).
func ingestCommand() cli.Command {
	return cli.Command{
		Name: "ingest", Args: "[FILE|DIR...|-]", Short: "read raw logs from a topic or files into the topic of events",
		Long: `Reads agent logs and writes them as weir's events to the topic of events, each flow to
one partition. With --from-topic it reads a raw topic, as a member of a consumer group,
until it is terminated. Otherwise it reads files, and folders with all files in them.

The format of each record is detected from its content and printed on standard error. A
record that fits two formats is rejected with both names; --format selects one.
CloudEvents (structured and binary), schema-registry frames around JSON, and OTLP in
JSON and protobuf are unwrapped. Unreadable records go to the dead-letter topic, with
headers for origin and reason.

Every record counts once: its event always has the same id, and weir drops repeated ids.
The offset of a raw topic is committed once the events before it are acknowledged. Spans
wait for their trace, and after a crash those of open traces are read again. Arguments
that --limits ignores are left out of hashes, so use the limits file of weir run.`,
		Examples: []string{
			"weir ingest --brokers kafka-1:9092 --from-topic otlp_spans",
			"weir ingest --brokers kafka-1:9092 --from-topic agent-logs --format openhands",
			"weir ingest --brokers kafka-1:9092 ~/.claude/projects",
			"weir ingest --brokers kafka-1:9092 --from-topic otlp_spans --until end",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			f := &ingestFlags{brokers: operate.NewBrokerFlags(fs), reading: newReading(fs), LimitFlags: operate.NewLimitFlags(fs)}
			fs.StringVar(&f.topic, "from-topic", "", "read this raw `TOPIC` instead of files")
			// Its own group, or a weir run of the same name would share the partitions with it.
			fs.StringVar(&f.group, "ingest-group", "", "with --from-topic: `NAME` of the consumer group; default: --group with -ingest behind it")
			f.until = cli.NewChoice(fs, "until", "", "with --from-topic: `end` stops at the current end, in this process alone", "end")
			return func(ctx context.Context, env *cli.Env, args []string) error { return f.run(ctx, env, args) }
		},
	}
}

// ingestFlags are the flags of weir ingest. Of the limits only the arguments that are left out
// of hashes are used.
type ingestFlags struct {
	brokers *operate.BrokerFlags
	*reading
	*operate.LimitFlags
	topic, group string
	until        *cli.Choice
}

// run finds out whether a topic or files are read, waits for the brokers and reads until it is
// done or a signal ends it. A topic that is not there is not waited for; the advice says whose
// it is, since the raw topic is not one of weir's own.
func (f *ingestFlags) run(ctx context.Context, env *cli.Env, args []string) error {
	if err := f.brokers.Load(env); err != nil {
		return err
	}
	switch {
	case f.topic != "" && len(args) > 0:
		return cli.Usage("a FILE is given beside --from-topic").Advise("give one or the other")
	case f.topic == "" && (f.until.Value != "" || f.group != ""):
		return cli.Usage("--until and --ingest-group are for --from-topic")
	// It would write to the topic that it reads, and never end.
	case f.topic != "" && f.topic == f.brokers.Topics.Events:
		return cli.Usage("--from-topic %s is the topic of events itself", f.topic).Advise("name the topic with the raw logs; --events-topic names the one to write to")
	case f.topic == "":
		if err := cli.Want(args, 1, -1, "a FILE or a DIR, or --from-topic TOPIC"); err != nil {
			return err
		}
	}
	// Events of the same call must have the same hash in all readers. So the hash leaves
	// out the same arguments as in the weirs.
	limits, err := f.LimitFlags.Limits()
	if err != nil {
		return err
	}
	cluster, err := f.brokers.Connect()
	if err != nil {
		return err
	}
	defer cluster.Close()
	// Signals end the context and not the process, so that what was read is still written and
	// the place in the raw topic is committed.
	signals := make(chan os.Signal, 4)
	if env.Notify != nil {
		defer env.Notify(signals, syscall.SIGINT, syscall.SIGTERM)()
	}
	err = operate.UntilSignal(ctx, signals, func(ctx context.Context) error {
		// Waited for as by weir run: it may be started together with the brokers.
		if err := operate.Await(ctx, env.Log, cluster.Check); err != nil {
			return err
		}
		if f.topic != "" {
			return f.fromTopic(ctx, env, cluster, limits.IgnoredArgs)
		}
		return f.fromFiles(ctx, env, cluster, limits.IgnoredArgs, args)
	})
	switch {
	case err == nil || !errors.Is(err, kafka.ErrNoTopic):
		return err
	case f.topic != "" && strings.Contains(err.Error(), f.topic):
		return cli.Failure("%w", err).Advise("--from-topic names the topic that the raw logs are written to")
	}
	return cli.Failure("%w", err).Advise("weir topics plan says which topics are missing; weir topics create creates them")
}

// fromTopic reads the raw topic as a member of a consumer group, until it is stopped. With
// --until end, it stops when all is read that was there. In either case it reports what was
// read, before the error.
func (f *ingestFlags) fromTopic(ctx context.Context, env *cli.Env, cluster *kafka.Cluster, ignore adapter.IgnoreArgs) error {
	if f.group == "" {
		f.group = f.brokers.Group + "-ingest"
	}
	// Only the first names that may be misspelled are reported one by one: producers repeat
	// themselves.
	var found atomic.Int64
	near := misnamed.Lookout{Report: func(ev *events.Event, n events.Nearby) {
		if found.Add(1) <= namedRefusals { // partitions are read side by side
			env.Notice("event %s: %s is not a known name and is ignored; is %s meant?", ev.ID, n.Name, n.Meant)
		}
	}}
	// Decoding goes by the flags for all partitions alike.
	t := &ingest.Topic{
		Cluster: cluster, Name: f.topic, Group: f.group, Events: f.brokers.Topics.Events, DeadLetters: f.brokers.Topics.DeadLetters,
		Decoder:  ingest.DecoderOptions{Format: f.reading.format.Value, IgnoreArgs: ignore, Own: near.Look},
		UntilEnd: f.until.Value != "", Logger: env.ServerLog(), Now: env.Now,
	}
	err := t.Run(ctx)
	// Also after an error: what was written stays written.
	env.Notice("%s read, %s written, %s refused", cli.Count(t.Read.Load(), "record"), cli.Count(t.Written.Load(), "event"), cli.Count(t.Refused.Load(), "record"))
	if n := found.Load() - namedRefusals; n > 0 {
		env.Notice("and %s more with names that may be misspelled", cli.Count(n, "event"))
	}
	// Without an end, no caller looks at the exit code; refused records are in the dead-letter
	// queue.
	if err == nil && f.until.Value != "" && t.Refused.Load() > 0 {
		return cli.Exit(cli.CodeFinding)
	}
	return err
}

// fromFiles writes the events of files to the topic, and what cannot be read to that of dead
// letters. There is no place to commit: who begins again reads the files again, and weir drops
// what it has seen.
func (f *ingestFlags) fromFiles(ctx context.Context, env *cli.Env, cluster *kafka.Cluster, ignore adapter.IgnoreArgs, args []string) error {
	topics := f.brokers.Topics
	// Before the files are opened: a missing topic is reported at once.
	w, err := ingest.NewWriter(ctx, cluster, topics.Events, topics.DeadLetters, env.Now)
	if err != nil {
		return err
	}
	inputs, err := f.reading.open(env, args)
	if err != nil {
		return err
	}
	defer closeAll(inputs)
	progress := env.Progress("events")
	defer progress.Done()
	// The callbacks of the reader cannot return an error. The next event returns it, which
	// ends the reading.
	var failed error
	// Writes are bundled: a batch goes out when it is full, and the last one at the end.
	// After a failure nothing more is tried.
	flush := func(always bool) {
		if failed == nil && (always || w.Full()) {
			failed = w.Flush(ctx)
		}
	}
	var bad refusals
	refuse := func(b logs.BadRecord) {
		bad.add(b)
		// The letter may wait in the writer, and the reader uses its memory for the next
		// record, so the bytes are copied.
		w.DeadLetter("file:"+absolute(b.Source), 0, sinkkafka.DeadLetter{Position: b.Byte, Code: b.Code, Reason: b.Reason, Raw: bytes.Clone(b.Raw)})
		flush(false)
	}
	near := newMisspelled(env, false)
	r := &logs.Reader{
		Inputs: inputs, IgnoreArgs: ignore, Whole: near.at, Own: near.Look, Unread: f.reading.notUnderstood,
		Event: func(ev *events.Event) error {
			// An event that the log does not take, such as one that is too large, becomes a
			// dead letter like a record that cannot be read.
			if err := w.Event(ev); err != nil {
				refuse(eventRefused(ev, err))
			}
			flush(false)
			return failed
		},
		Bad:    refuse,
		Tick:   func(_ int64, share float64) { progress.At(w.Written, share) },
		Broken: func(err error) { f.reading.leave(env, err) },
	}
	err = r.Read()
	// After an error nothing more is written: what is still in the writer comes again when the
	// files are read again.
	if err == nil {
		flush(true)
		err = failed
	}
	progress.Done()
	bad.notice(env)
	near.rest()
	env.Notice("%s written to %s, %s refused", cli.Count(w.Written, "event"), topics.Events, cli.Count(bad.n, "record"))
	if err != nil {
		return err
	}
	// A refused record and a file that could not be read end with the same code.
	if err = f.reading.done(env); bad.n > 0 {
		err = cli.Exit(cli.CodeFinding)
	}
	return err
}

// eventRefused reports an event that is not fit for the log. It is named by its id, since it
// may come out of many records.
func eventRefused(ev *events.Event, err error) logs.BadRecord {
	b := logs.BadRecord{Source: "event " + ev.ID, Code: "format", Reason: err.Error(), Raw: ev.AppendJSON(nil)}
	if d, ok := errors.AsType[*events.DecodeError](err); ok {
		b.Code = string(d.Code)
	}
	return b
}

// absolute returns a path as others on this machine would say it.
//
// A dead letter is read elsewhere than where the files were named. Standard input stays as
// it is.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil && path != logs.Stdin {
		return whole
	}
	return path
}
