package operate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/config"
	"weir/cmd/internal/group"
	"weir/events/kafka"
)

// BrokerFlags say how the brokers of a Kafka cluster are reached, and which topics and
// which group of it are weir's.
type BrokerFlags struct {
	// Flags is the set that the flags are declared in. Settings are loaded into it, so that
	// the environment and the configuration file speak for commands that share only these
	// flags.
	Flags *pflag.FlagSet
	// Addresses are as they were written: each may hold several, with commas. Hosts takes them
	// apart.
	Addresses *cli.List
	Group     string
	Topics    group.Topics

	// What is below says how to log in. It is used by Connect alone.
	tls           bool
	ca, cert, key string
	sasl          *cli.Choice
	user          string
	password      *config.Secret
	token         tokenFlags
	schemas       schemaFlags
}

// NewBrokerFlags declares the flags, and that of the configuration file.
//
// Commands that read or write topics take them all, also those that use one topic only, so
// that one configuration file serves every command.
func NewBrokerFlags(fs *pflag.FlagSet) *BrokerFlags {
	b := &BrokerFlags{Flags: fs}
	config.AddFileFlag(fs)
	b.Addresses = cli.NewList(fs, "brokers", "brokers of a Kafka cluster, `HOST:PORT,...`; one reachable broker is enough")
	fs.StringVar(&b.Group, "group", group.DefaultGroup, "`NAME` that all members of the group share")
	names := group.DefaultTopics()
	fs.StringVar(&b.Topics.Events, "events-topic", names.Events, "`TOPIC` of the events")
	fs.StringVar(&b.Topics.Verdicts, "verdicts-topic", names.Verdicts, "the `TOPIC` that verdicts are written to")
	fs.StringVar(&b.Topics.Orders, "orders-topic", names.Orders, "the `TOPIC` for orders by hand")
	fs.StringVar(&b.Topics.Activity, "activity-topic", names.Activity, "`TOPIC` for records about agents across flows")
	fs.StringVar(&b.Topics.DeadLetters, "dead-letter-topic", names.DeadLetters, "`TOPIC` of the dead-letter queue")
	fs.BoolVar(&b.tls, "kafka-tls", false, "connect to brokers by TLS")
	fs.StringVar(&b.ca, "kafka-ca-file", "", "verify brokers by the authorities in `FILE` instead of the system's")
	fs.StringVar(&b.cert, "kafka-cert-file", "", "`FILE` with weir's client certificate for brokers")
	fs.StringVar(&b.key, "kafka-key-file", "", "`FILE` with the key of that certificate")
	b.sasl = cli.NewChoice(fs, "kafka-sasl", "", "log in by `MECHANISM`: "+strings.Join(mechanisms, ", "), mechanisms...)
	fs.StringVar(&b.user, "kafka-user", "", "log in as `USER`; for oauthbearer the id of the client")
	b.password = config.NewSecret(fs, "kafka-password-file", "`FILE` with the password; for oauthbearer the secret of the client")
	b.token.declare(fs)
	b.schemas.declare(fs)
	return b
}

// Given reports whether brokers are named.
//
// Before Load only the command line counts, after it the environment and the file as well.
func (b *BrokerFlags) Given() bool { return len(*b.Addresses) > 0 }

// Load takes what the command line leaves open out of the environment and the
// configuration file, and wants that brokers are named then.
//
// Flags named in except mean something else in this command than the setting of their name,
// and are left alone; see config.Table.Load.
func (b *BrokerFlags) Load(env *cli.Env, except ...string) error {
	if _, err := Settings().Load(b.Flags, env.Getenv, except...); err != nil {
		return err
	}
	if !b.Given() {
		return cli.Usage("no brokers are named").Advise("name them with --brokers HOST:PORT or %s, or in the configuration file", config.Variable("brokers"))
	}
	return nil
}

// Hosts returns the addresses of the brokers, with the usual port where none is given.
//
// An IPv6 address needs its port, since its colons could not be distinguished from that of a
// port.
func (b *BrokerFlags) Hosts() (list []string, err error) {
	for _, some := range *b.Addresses {
		for one := range strings.SplitSeq(some, ",") {
			one = strings.TrimSpace(one)
			host, port, err := net.SplitHostPort(one)
			if err != nil && !strings.Contains(one, ":") {
				host, port, err = one, "9092", nil
			}
			if err != nil || host == "" || port == "" {
				return nil, cli.Usage("--brokers: %q is no address", one).Advise("for example --brokers kafka-1:9092,kafka-2:9092")
			}
			list = append(list, net.JoinHostPort(host, port))
		}
	}
	return list, nil
}

// Connect returns how the brokers are reached. It reads the files that are named and
// opens no connection.
//
// Wrong names of files, an empty password and settings that do not fit each other are found
// here, before anything waits for a broker. The caller closes the cluster.
func (b *BrokerFlags) Connect() (*kafka.Cluster, error) {
	hosts, err := b.Hosts()
	if err != nil {
		return nil, err
	}
	password, err := b.password.Read()
	if err != nil {
		return nil, cli.Failure("password for the brokers: %w", err)
	}
	c := &kafka.Cluster{Brokers: hosts}
	security := kafka.Security{TLS: b.tls, CAFile: b.ca, CertFile: b.cert, KeyFile: b.key, Mechanism: b.sasl.Value, User: b.user, Password: password}
	if err = b.token.fill(&security, hosts); err == nil {
		err = c.Secure(security)
	}
	if err == nil {
		err = b.schemas.fill(c)
	}
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	return c, nil
}

// reachable is how long interactive commands try to reach the brokers.
const reachable = 15 * time.Second

// Reach returns the cluster when one of its brokers has let weir in.
//
// It gives up after reachable: who types a command wants to know, where weir run waits for
// brokers by Await. The cluster is returned with an error, too, when it was the check that
// failed.
func (b *BrokerFlags) Reach(ctx context.Context) (*kafka.Cluster, error) {
	c, err := b.Connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	return c, c.Check(ctx)
}

// Brokers that are about to settle who leads a new partition, or who coordinates a
// group, say so for a moment.
const (
	settleMost  = 10 * time.Second
	settlePause = 100 * time.Millisecond
)

// Settled calls ask until the answer is not one of brokers that have yet to settle.
//
// Only errors that Kafka itself calls temporary are tried again. A topic that is not there
// counts as final, though right after it was created it may not be known everywhere. ask gets
// ctx as it is, so what it asks may take longer than settleMost; that bounds the tries.
func Settled(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	for {
		err := ask(ctx)
		code, ok := errors.AsType[kafkago.Error](err)
		if !ok || !code.Temporary() || errors.Is(err, kafka.ErrNoTopic) {
			return err
		}
		select {
		case <-time.After(settlePause):
		case <-limited.Done():
			return err
		}
	}
}

// How weir run waits for brokers: one that was killed is back after half a minute, and
// one that is started beside weir after less.
const (
	awaitMost  = time.Minute
	awaitLogs  = 10 * time.Second // between two lines that say so
	awaitPause = time.Second
)

// Await returns when check finds brokers that let weir in. What time does not heal,
// such as a wrong password, is an error at once.
//
// Each try is logged, at most every awaitLogs, so that a weir that hangs at its
// start says why.
func Await(ctx context.Context, log *slog.Logger, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, awaitMost)
	defer cancel()
	begin, logged := time.Now(), time.Time{}
	for {
		err := check(limited)
		if err == nil || kafka.Final(err) {
			return err
		}
		if now := time.Now(); now.Sub(logged) >= awaitLogs && now.Sub(begin) < awaitMost {
			logged = now
			log.Warn("weir waits for the brokers", "error", err)
		}
		select {
		case <-time.After(awaitPause):
		case <-limited.Done():
			// Ended from outside, such as by a signal; the cause says so.
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return cli.Failure("after %s: %w", awaitMost, err)
		}
	}
}

// Bounds of waiting for records that should be there.
const (
	silentFetches = 20 // in a row without a record: the remaining offsets are marks of transactions
	awayMost      = time.Minute
)

// EachRecord calls fn for the records of a partition from an offset to before another.
// The record is good until fn returns. Records that are gone or cannot be read go to
// lost, where that is not nil.
//
// It runs in the goroutine of its caller, and an error of fn ends it. A partition that
// falls silent before the end is taken for read: the last offsets may be marks of
// transactions, which no reader sees. Brokers that are away for longer than awayMost are an
// error.
func EachRecord(ctx context.Context, c *kafka.Cluster, topic string, partition int, from, to int64, fn func(*kafka.Record) error, lost func(error)) error {
	r := kafka.NewReader(c, topic, partition, from, kafka.ReaderOptions{})
	defer r.Close()
	var records []kafka.Record
	for silent := 0; r.Next() < to && silent < silentFetches; {
		var err error
		records, err = r.Fetch(ctx, records)
		// Retention dropped records during the read. The remaining ones are read on.
		if next, ok := kafka.Behind(err); ok {
			if lost != nil {
				lost(err)
			}
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			if records[i].Offset >= to {
				return nil
			}
			if err := fn(&records[i]); err != nil {
				return err
			}
		}
		since, trouble := r.Trouble()
		switch {
		case len(records) > 0:
			silent = 0
		case trouble == nil:
			silent++
		case time.Since(since) > awayMost:
			return trouble
		}
	}
	return nil
}
