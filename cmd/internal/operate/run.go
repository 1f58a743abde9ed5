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
		Name: "run", Wants: cli.Wants(0, -1, ""), Short: "run weir: receive events, publish verdicts, answer checks",
		Groups: []cli.FlagGroup{
			{Title: "Events in", Flags: []string{"follow", "trust-users", "intake-memory"}},
			{Title: "Serving", Flags: []string{"listen", "host", "metrics", "native-histograms", "authz", "authz-grpc"}},
			{Title: "Limits", Flags: []string{"limits", "profile", "set", "prices"}},
			{Title: "State", Flags: []string{"state", "in-memory", "retention", "memory", "checkpoint-every"}},
			{Title: "Verdicts out", Flags: []string{"verdict-file", "webhook", "webhook-format", "webhook-secret-file", "otlp-logs", "otlp-headers-file", "order-keys-file"}},
			{Title: "Access", Flags: []string{"access-file", "intake-token-file", "admin-token-file", "audit-file", "tls-cert-file", "tls-key-file", "tls-client-ca-file"}},
			{Title: "Kafka", Flags: []string{"brokers", "group", "advertise", "horizon", "member-key-file", "events-topic", "verdicts-topic", "activity-topic", "dead-letter-topic", "orders-topic", "kafka-ca-file", "kafka-cert-file", "kafka-key-file", "kafka-password-file", "kafka-sasl", "kafka-tls", "kafka-user", "kafka-token-file", "kafka-token-url", "kafka-token-audience", "kafka-token-scope", "kafka-sasl-extension", "kafka-aws-region", "schema-registry", "schema-registry-user", "schema-registry-password-file"}},
		},
		Long: `Receives events by POST /v1/events (one JSON object, or one per line) and from followed
files. Keeps them in a journal. Publishes verdicts by GET /v1/verdicts (a stream), to a
file and to a webhook. POST /v1/check answers whether a call may be made. GET /v1/flows
lists flows. Nothing else has to be installed.

POST /v1/check also accepts up to 64 events, one per line (Content-Type:
application/x-ndjson). POST /v1/check/stream accepts lines for as long as the request
lasts (HTTP/1.1, read while writing). It answers each line when it is known: {"line":
its number from 1, "status": as of a request, "body": the answer}. An answer is sent
once a crash of weir cannot lose the check; the disk has it within 50 ms. A caller
without an answer repeats the check with the same id, which counts once. With
--in-memory nothing survives the end of weir.

OpenTelemetry SDKs and Collectors can send to it (OTLP by HTTP: POST /v1/traces and
/v1/logs, JSON or protobuf), and LangSmith's clients too (LANGSMITH_ENDPOINT).

With --brokers the log is a Kafka topic, and verdicts go to another topic. Members of
one --group share the partitions. Each has its own state folder and address. weir topics
create creates the topics, and weir doctor finds faults. Wrong passwords and missing
topics end weir at once. Unreachable brokers end it after a minute at start. Any member
serves all verdicts. It copies those of others while a client follows them, and always
for --verdict-file, --webhook and --otlp-logs. Set these on one or two members.

Acknowledged data is in the state folder, also after a crash. Limits files are read
again when they change, and at once on SIGHUP. SIGINT and SIGTERM end weir in order
within 20 s, a second one at once.

Each flag can also be set in the environment, as WEIR_LISTEN or WEIR_VERDICT_FILE, or in
a configuration file. weir config print shows each value and its origin.`,
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
				if len(args) > 0 && len(*r.follow) > 0 { // as the shell makes of a pattern
					return cli.Usage("%q is one argument too many", args[0]).Advise("quote a pattern, as in --follow 'logs/*.jsonl', or repeat --follow for each file")
				}
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

// defaultState is where weir run keeps its state by default.
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
	r.hosts = cli.NewList(fs, "host", "further `NAME` of this machine that clients may use, besides localhost; repeatable")
	fs.StringVar(&r.O.StateDir, "state", defaultState, "keep journal and state in this `DIR`")
	fs.BoolVar(&r.inMemory, "in-memory", false, "keep everything in memory only")
	fs.StringVar(&r.O.AdminTokenFile, "admin-token-file", "", "`FILE` with the admin token, which changes need; without it they are rejected; a second line is accepted too, for rotation")
	fs.StringVar(&r.O.IntakeTokenFile, "intake-token-file", "", "`FILE` with the token for all other requests; without it only this machine is served")
	fs.StringVar(&r.O.AccessFile, "access-file", "", "`FILE` with principals, roles, flows, sources and rates; all callers then need a token or a certificate; read again when it changes")
	fs.StringVar(&r.O.MemberKeyFile, "member-key-file", "", "with --brokers: `FILE` with keys that members share, one per line (id, space, secret); the first signs; default: from the admin or intake token")
	fs.StringVar(&r.O.AuditFile, "audit-file", "", "record orders by hand, refused ones too, in `FILE`; default: audit.jsonl in the folder of --state")
	fs.StringVar(&r.O.OrdersFile, "orders-file", "", "also keep orders by hand (weir stop) in `FILE`, so that they survive the loss of --state; with --brokers a topic keeps them")
	fs.StringVar(&r.O.SwitchFile, "switch-file", "", "`FILE` with settings of weir stop and of approvals; read at the start")
	fs.StringVar(&r.O.TLS.Certificate, "tls-cert-file", "", "serve TLS on every port with the certificate in `FILE`, read again when it changes")
	fs.StringVar(&r.O.TLS.Key, "tls-key-file", "", "`FILE` with the key of that certificate")
	fs.StringVar(&r.O.TLS.ClientAuthorities, "tls-client-ca-file", "", "accept client certificates of the authorities in `FILE`; they also verify other members of --brokers")
	fs.StringVar(&r.O.TrustUsers, "trust-users", gate.DefaultTrust, "trust user messages from these `SOURCES`: some of "+gate.TrustWords()+"; the admin token always is")
	r.follow = cli.NewList(fs, "follow", "follow the events in `[FORMAT=]FILE`, a folder, or a pattern such as 'logs/*.jsonl'; - is standard input; map@MAPPING=FILE uses the mapping in a file; repeatable")
	fs.StringVar(&r.O.VerdictFile, "verdict-file", "", "also append verdicts to `FILE`")
	fs.StringVar(&r.O.WebhookURL, "webhook", "", "also send verdicts to `URL`")
	fs.StringVar(&r.O.WebhookFormat, "webhook-format", webhook.FormatVerdict.String(), "`FORMAT` of the webhook, one of "+webhook.FormatWords()+"; slack and teams get only what needs a person")
	fs.StringVar(&r.O.WebhookSecretFile, "webhook-secret-file", "", "`FILE` with the key that signs deliveries")
	fs.StringVar(&r.O.OTLPLogs, "otlp-logs", "", "also send verdicts as OpenTelemetry log events to `URL`, such as http://127.0.0.1:4318, with trace, span and gen_ai.agent.finish_reason")
	fs.StringVar(&r.O.OTLPHeadersFile, "otlp-headers-file", "", "`FILE` with headers to send, one per line, such as Authorization: Bearer TOKEN")
	fs.StringVar(&r.O.OrderKeysFile, "order-keys-file", "", "sign orders with the keys in `FILE`, a line each: id, space, secret; dispatchers need them too; the first one signs; read again on reload")
	fs.DurationVar(&r.O.State.JournalTTL, "retention", app.DefaultRetention, "keep journal and flows for this `DURATION`")
	fs.DurationVar(&r.O.CheckpointEvery, "checkpoint-every", pump.DefaultCheckpointEvery, "least `TIME` between checkpoints; three times as long while recovery would take less than half a second")
	fs.StringVar(&r.advertise, "advertise", "", "with --brokers: `URL` at which other members reach this one")
	fs.DurationVar(&r.lookback, "horizon", 0, "with --brokers: without state, fold this `DURATION` again; default: the longest possible episode")
	fs.BoolVar(&r.O.Authz, "authz", false, "serve gateways at /authz/GATEWAY; a gateway that forwards its clients' hosts and origins must send the intake token")
	fs.StringVar(&r.O.AuthzGRPC, "authz-grpc", "", "serve Envoy's external authorization by gRPC on `ADDRESS`")
	fs.StringVar(&r.O.Metrics, "metrics", app.DefaultMetrics, "serve Prometheus metrics and profiles on `ADDRESS`; empty for none")
	fs.BoolVar(&r.O.NativeHistograms, "native-histograms", false, "add native histograms; the dashboards read the classic ones")
	fs.DurationVar(&r.O.SelfTest, "self-test", app.DefaultSelfTest, "interval of the self-test, a loop and calls that must be stopped (`DURATION`); 0 for never")
	fs.Int64Var(&r.memoryMiB, "memory", pump.DefaultMemory>>20, "memory for flows, in `MIB`")
	fs.Int64Var(&r.intakeMiB, "intake-memory", app.DefaultIntakeMemory>>20, "memory of all requests in progress, in `MIB`; requests beyond get 503 with Retry-After")
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
		// A mapping that is named is read here, so a fault in it is reported before anything
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
	chosen := os.Getenv("GOGC") != "" // if it is set, the operator's choice counts
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
	// A failure at the start is reported with the most likely remedy.
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
	// Without a notification, systemd treats a unit of type notify as failed. Weir serves all the same.
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
		// It ended by itself, because of a fault that it must not go on with; Err returns it.
		case <-a.Done():
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	_ = TellSystemd(env, systemdStopping) // systemd also sees the exit without it
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
