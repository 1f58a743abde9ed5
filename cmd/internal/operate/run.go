package operate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
	"weir/sink/webhook"
)

// RunCommand is weir run, the server.
//
// Its flags are the settings of the whole program: Settings makes its table of them.
func RunCommand() cli.Command {
	return cli.Command{
		Name: "run", Short: "take events in and give verdicts out, by HTTP, files and pipes",
		Long: `Takes events by POST /v1/events (one JSON object, or one per line) and from files that
are followed, keeps them in a journal, and gives verdicts by GET /v1/verdicts (as a
stream), into a file and to a webhook. POST /v1/check answers whether one call may be
made, GET /v1/flows tells of the flows. Nothing else has to be installed.

POST /v1/check also takes up to 64 events in one body, one a line (Content-Type:
application/x-ndjson), and POST /v1/check/stream takes one line after the other for as
long as the request goes on (HTTP/1.1, read while writing) and answers each as soon as it
is known: {"line": which one, from 1, "status": as of a request, "body": the answer}. An
answer goes out when the end of weir can take nothing of its ask: the system has it, and
the disk within 50 ms, or the brokers have. So what was answered is counted also after a
crash, but for the last asks before a loss of power; who got no answer asks again with the
same id, which counts once. With --in-memory all is gone when weir ends.

OpenTelemetry SDKs and Collectors may point at it (OTLP by HTTP: POST /v1/traces and
/v1/logs, JSON or protobuf), and LangSmith's clients, too (LANGSMITH_ENDPOINT).

With --brokers the log is a Kafka topic instead, and verdicts go to another one. Start
as many as there are partitions: those of one --group share them, and each has a state
folder and an address of its own. weir topics create makes the topics, weir doctor
finds out what is wrong. Wrong passwords and missing topics end weir at once; brokers
that do not answer are waited for at the start, a minute at most. Any member gives the
verdicts of all; it fetches them while somebody follows them there, and always for
--verdict-file, --webhook and --otlp-logs, which one or two members should have.

What was acknowledged is in the state folder, also after a crash, and synced before, but
for what is asked. Limits files are
read again when they change. SIGHUP reads them at once, SIGINT and SIGTERM end weir in
order within 20 s, and a second one at once.

Each flag may also be given by the environment, as WEIR_LISTEN or WEIR_VERDICT_FILE, or
by a configuration file; weir config print says what is in force and why.`,
		Examples: []string{
			"weir run",
			"weir run --state /var/lib/weir --limits limits.yaml",
			"weir run --follow claudecode=session.jsonl --verdict-file verdicts.jsonl",
			"weir run --brokers kafka-1:9092 --state /var/lib/weir --advertise http://weir-1:8080",
			"curl -N http://127.0.0.1:8080/v1/verdicts",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			r := NewRunFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if err := cli.Want(args, 0, 0, ""); err != nil {
					return err
				}
				// What flags do not say comes from the environment and the file, into the
				// same variables.
				if _, err := Settings().Load(fs, env.Getenv); err != nil {
					return err
				}
				o, err := r.options()
				if err != nil {
					return err
				}
				return serve(ctx, env, o)
			}
		},
	}
}

// defaultState is where weir run keeps its state when nobody says otherwise.
const defaultState = "weir-state"

// RunFlags are the flags of weir run, which are its settings.
//
// They become app.Options by options, when all values are known. Those that app takes as
// they are stand in O already.
type RunFlags struct {
	LimitFlags *LimitFlags
	brokers    *BrokerFlags
	// O has what flags write into it directly. It is complete only after options.
	O             app.Options
	inMemory      bool
	hosts, follow *cli.List
	// Both are in MiB, as people say it; app takes bytes.
	memoryMiB int64
	intakeMiB int64
	advertise string
	// 0 means as long as an episode can last by the limits.
	lookback time.Duration
}

// NewRunFlags declares the flags.
//
// Doctor and config declare the same flags. What a flag's text says in backquotes is what
// help prints for its value, and from the type comes its schema.
func NewRunFlags(fs *pflag.FlagSet) *RunFlags {
	r := &RunFlags{LimitFlags: NewLimitFlags(fs), brokers: NewBrokerFlags(fs)}
	fs.StringVar(&r.O.Listen, "listen", app.DefaultListen, "serve HTTP on this `ADDRESS`")
	r.hosts = cli.NewList(fs, "host", "a `NAME` that clients call this machine by, beside localhost; may be given many times")
	fs.StringVar(&r.O.StateDir, "state", defaultState, "keep journal and state in this `DIR`")
	fs.BoolVar(&r.inMemory, "in-memory", false, "keep everything in memory: nothing is left when weir ends")
	fs.StringVar(&r.O.AdminTokenFile, "admin-token-file", "", "`FILE` with the token for what changes something; without it nobody may; a second line holds another one while it is exchanged")
	fs.StringVar(&r.O.IntakeTokenFile, "intake-token-file", "", "`FILE` with the token for everything else; without it only this machine may")
	fs.StringVar(&r.O.AccessFile, "access-file", "", "`FILE` that names who may do what, with roles, flows, sources and rates; with it everybody needs a token or a certificate, also on this machine; read again when it changes")
	fs.StringVar(&r.O.MemberKeyFile, "member-key-file", "", "with --brokers: `FILE` with the keys by which members know each other, one per line, an id, a space and a secret; the first one signs; by default they come from the admin token, or the intake token")
	fs.StringVar(&r.O.AuditFile, "audit-file", "", "tell orders of persons, refused ones too, in this `FILE`; by default audit.jsonl in the folder of --state")
	fs.StringVar(&r.O.OrdersFile, "orders-file", "", "keep orders by hand (weir stop) in this `FILE` as well, so that they outlast the loss of --state; with --brokers a topic keeps them")
	fs.StringVar(&r.O.TLS.Certificate, "tls-cert-file", "", "speak TLS on every port: `FILE` with the certificate, read again when it changes")
	fs.StringVar(&r.O.TLS.Key, "tls-key-file", "", "`FILE` with the key of that certificate")
	fs.StringVar(&r.O.TLS.ClientAuthorities, "tls-client-ca-file", "", "let clients in by certificates of the authorities in this `FILE`; other members of --brokers are trusted by them, too")
	fs.StringVar(&r.O.TrustUsers, "trust-users", gate.DefaultTrust, "believe these `SOURCES` that a user has spoken, which lifts a stop: some of "+gate.TrustWords()+"; from others, such as hooks by default, that is a claim that lifts nothing; the admin token is always believed, and so is who may write to the topic of --brokers")
	r.follow = cli.NewList(fs, "follow", "read events from this `[FORMAT=]FILE` while it grows, or from all files of a folder or of a pattern such as 'logs/*.jsonl', - for standard input; map@MAPPING=FILE reads it by the mapping in a file; may be given many times")
	fs.StringVar(&r.O.VerdictFile, "verdict-file", "", "append verdicts to this `FILE` too")
	fs.StringVar(&r.O.WebhookURL, "webhook", "", "send verdicts to this `URL` too")
	fs.StringVar(&r.O.WebhookFormat, "webhook-format", webhook.FormatVerdict.String(), "the webhook takes this `FORMAT`, one of "+webhook.FormatWords()+"; slack and teams are told in words of flows that are held or halted and of agents that need a person, and of nothing else")
	fs.StringVar(&r.O.WebhookSecretFile, "webhook-secret-file", "", "`FILE` with the key that deliveries are signed with")
	fs.StringVar(&r.O.OTLPLogs, "otlp-logs", "", "send verdicts as log events of OpenTelemetry to this `URL` too, such as http://127.0.0.1:4318; they have the trace and span that they are about, and gen_ai.agent.finish_reason")
	fs.StringVar(&r.O.OTLPHeadersFile, "otlp-headers-file", "", "`FILE` with headers to send along, one per line, such as Authorization: Bearer TOKEN")
	fs.StringVar(&r.O.OrderKeysFile, "order-keys-file", "", "sign orders: `FILE` with keys that dispatchers have too, one per line, an id, a space and a secret; the first one signs; read again on reload")
	fs.DurationVar(&r.O.State.JournalTTL, "retention", app.DefaultRetention, "keep journal and flows for this `DURATION`")
	fs.DurationVar(&r.O.CheckpointEvery, "checkpoint-every", pump.DefaultCheckpointEvery, "least `TIME` between checkpoints; three times as long where what would be folded again after a crash takes less than half a second")
	fs.StringVar(&r.advertise, "advertise", "", "with --brokers: the other members reach this one by this `URL`")
	fs.DurationVar(&r.lookback, "horizon", 0, "with --brokers: where there is no state, fold this `DURATION` again; by default as long as an episode can last")
	fs.BoolVar(&r.O.Authz, "authz", false, "answer gateways that ask by HTTP, at /authz/GATEWAY; one that passes on its clients' hosts and origins has to show the intake token")
	fs.StringVar(&r.O.AuthzGRPC, "authz-grpc", "", "answer Envoy's external authorization by gRPC on this `ADDRESS`")
	fs.StringVar(&r.O.Metrics, "metrics", app.DefaultMetrics, "serve metrics for Prometheus, and profiles, on this `ADDRESS`; empty for none")
	fs.BoolVar(&r.O.NativeHistograms, "native-histograms", false, "add native histograms; the dashboards read the classic ones")
	fs.DurationVar(&r.O.SelfTest, "self-test", app.DefaultSelfTest, "test itself every `DURATION`: make a loop and see whether it is stopped; 0 for never")
	fs.Int64Var(&r.memoryMiB, "memory", pump.DefaultMemory>>20, "hold flows in memory up to so many `MIB`")
	fs.Int64Var(&r.intakeMiB, "intake-memory", app.DefaultIntakeMemory>>20, "hold requests that are taken in up to so many `MIB`, all together; what comes beyond is told to come again")
	return r
}

// options returns what the flags say.
//
// It reads files that are named, such as mappings, and opens and starts nothing. r is not
// changed, so it may be called again.
func (r *RunFlags) options() (app.Options, error) {
	o := r.O
	o.Hosts = *r.hosts
	o.Memory = r.memoryMiB << 20
	o.IntakeMemory = r.intakeMiB << 20
	// One setting, --retention, says how long both are kept.
	o.State.RecordTTL = o.State.JournalTTL
	if r.inMemory {
		o.StateDir = ""
	}
	for _, s := range *r.follow {
		// A mapping that is named is read here, so a fault in it is told before anything
		// starts.
		f, err := Followed(s)
		if err != nil {
			return o, err
		}
		o.Follow = append(o.Follow, f)
	}
	if err := r.onKafka(&o); err != nil {
		return o, err
	}
	// A file alone is watched; profile and single values are as they are said.
	o.PricesFile = *r.LimitFlags.Prices
	if *r.LimitFlags.File != "" {
		if r.LimitFlags.Profile.Value != "" || len(*r.LimitFlags.Sets) > 0 {
			return o, cli.Usage("--limits is given beside --profile or --set").Advise("write profile and values into %s: it is watched and would undo them", *r.LimitFlags.File)
		}
		o.LimitsFile = *r.LimitFlags.File
		return o, nil
	}
	var err error
	o.Limits, err = r.LimitFlags.unpriced() // the app adds the prices
	return o, err
}

// onKafka puts into the options what the Kafka form needs, if brokers are named.
func (r *RunFlags) onKafka(o *app.Options) error {
	switch {
	case !r.brokers.Given() && (r.advertise != "" || r.lookback != 0 || r.O.MemberKeyFile != ""):
		return cli.Usage("--advertise, --horizon and --member-key-file are for a weir that has --brokers")
	case !r.brokers.Given():
		return nil
	// On Kafka events come from the topic alone.
	case len(o.Follow) > 0:
		return cli.Usage("--follow is given beside --brokers").Advise("weir ingest puts files onto the topic of events")
	}
	if u, err := url.Parse(r.advertise); r.advertise != "" && (err != nil || u.Host == "") {
		return cli.Usage("--advertise %s is no URL", r.advertise).Advise("for example --advertise http://weir-1:8080")
	}
	cluster, err := r.brokers.Connect()
	if err != nil {
		return err
	}
	o.Kafka = &group.Options{Cluster: cluster, Group: r.brokers.Group, Topics: r.brokers.Topics, Advertise: r.advertise, Lookback: r.lookback}
	return nil
}

// Graceful is how long weir may take to end in order, and closing how long a disk may
// hold it up after that.
const (
	Graceful = 20 * time.Second
	closing  = 5 * time.Second
)

// garbage is how much memory may wait to be collected, in percent of what is in use. Most of
// that is bytes in which nothing has to be looked for, so collecting more often than Go does by
// itself costs little: beside 75, 50 takes a tenth less memory and some 2 % more processor time. GOGC
// sets another figure.
// Until weir has started, nearly all that it allocates stays, and the heap is so small that it would be
// collected every other millisecond.
const (
	garbage        = 75
	garbageAtStart = 800
)

// serve runs the program until a signal ends it.
//
// The settings are complete when it is called. It returns nil when a signal has ended weir
// in order.
func serve(ctx context.Context, env *cli.Env, o app.Options) error {
	o.Logger = env.ServerLog()
	// Asked for before anything starts, so that no signal kills a weir that is half started.
	// A signal that finds no room is dropped, so there is some.
	signals := make(chan os.Signal, 4)
	if env.Notify != nil {
		defer env.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)()
	}
	chosen := os.Getenv("GOGC") != "" // whoever sets it knows his machine
	if !chosen {
		debug.SetGCPercent(garbageAtStart)
	}
	a, err := app.New(o)
	if err != nil {
		return err
	}
	if o.Kafka != nil {
		if err := UntilSignal(ctx, signals, func(ctx context.Context) error { return Await(ctx, o.Logger, o.Kafka.Cluster.Check) }); err != nil {
			return err
		}
	}
	// What fails at the start is told with the most likely remedy.
	if err := a.Start(ctx); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return cli.Failure("%w", err).Advise("is another weir running? choose a port with --listen 127.0.0.1:8081")
		}
		if errors.Is(err, kafka.ErrNoTopic) {
			return cli.Failure("%w", err).Advise("weir topics plan says which topics are missing; weir topics create creates them")
		}
		return err
	}
	if !chosen {
		debug.SetGCPercent(garbage)
	}
	// A unit of type notify counts as failed when nobody tells it. Weir serves all the same.
	if err := TellSystemd(env, SystemdReady); err != nil {
		o.Logger.Warn("systemd does not know that weir runs", "error", err)
	}
	if env.ErrTerminal {
		env.Notice("weir listens on %s://%s, Ctrl-C ends it", a.Scheme(), a.Addr())
	}
	for ended := false; !ended; {
		select {
		// SIGHUP reads files again and nothing else; a file that is refused leaves the old
		// limits in force.
		case s := <-signals:
			if ended = s != syscall.SIGHUP; !ended {
				o.Logger.Info("limits are read again")
				if err := a.Reload(); err != nil {
					o.Logger.Error("reload", "error", err)
				}
			}
		// It ended by itself, because of a fault that it must not go on with; Err tells.
		case <-a.Done():
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	_ = TellSystemd(env, systemdStopping) // which it sees without being told
	return stop(ctx, signals, o, a)
}

// UntilSignal calls fn with a context that a signal to end ends.
//
// It is for the time before serve looks at signals itself. SIGHUP is taken and does
// nothing, since there is nothing to read again yet. fn has to return when its context ends:
// it is waited for.
func UntilSignal(ctx context.Context, signals <-chan os.Signal, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case s := <-signals:
			if s != syscall.SIGHUP {
				cancel(fmt.Errorf("ended by %s", s))
			}
		}
	}
}

// stop ends the program in order, unless a second signal comes.
//
// ctx may have ended already, so its values are kept and its end is not. A second signal,
// or a disk that hangs, ends the process without waiting: recovery at the next start is the
// same as after a crash.
func stop(ctx context.Context, signals <-chan os.Signal, o app.Options, a *app.App) error {
	o.Logger.Info("weir ends")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Graceful)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(ctx) }()
	// Real time: a disk that hangs does not look at clocks.
	late := time.After(Graceful + closing)
	for {
		select {
		case err := <-stopped:
			return errors.Join(a.Err(), err)
		case <-late:
			return cli.Failure("the state was not closed within %v", Graceful+closing).Advise("nothing that was acknowledged is lost; is the disk of %s well?", o.StateDir)
		case s := <-signals:
			if s != syscall.SIGHUP {
				return cli.Failure("ended at once by %s", s).Advise("nothing that was acknowledged is lost; the next start reads the rest from the journal")
			}
		}
	}
}
