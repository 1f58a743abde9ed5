package main

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

// brokerFlags say how the brokers of a Kafka cluster are reached, and which topics and
// which group of it are weir's.
type brokerFlags struct {
	flags     *pflag.FlagSet
	addresses *cli.List
	group     string
	topics    group.Topics

	tls           bool
	ca, cert, key string
	sasl          *cli.Choice
	user          string
	password      *config.Secret
}

// newBrokerFlags declares the flags, and that of the configuration file.
func newBrokerFlags(fs *pflag.FlagSet) *brokerFlags {
	b := &brokerFlags{flags: fs}
	config.AddFileFlag(fs)
	b.addresses = cli.NewList(fs, "brokers", "the brokers of a Kafka cluster, `HOST:PORT,...`; one that answers suffices")
	fs.StringVar(&b.group, "group", group.DefaultGroup, "the `NAME` that all weirs of one purpose share")
	names := group.DefaultTopics()
	fs.StringVar(&b.topics.Events, "events-topic", names.Events, "the `TOPIC` that events are read from")
	fs.StringVar(&b.topics.Verdicts, "verdicts-topic", names.Verdicts, "the `TOPIC` that verdicts are written to")
	fs.StringVar(&b.topics.Activity, "activity-topic", names.Activity, "the `TOPIC` for what concerns agents across flows")
	fs.StringVar(&b.topics.DeadLetters, "dead-letter-topic", names.DeadLetters, "the `TOPIC` for records that cannot be read")
	fs.BoolVar(&b.tls, "kafka-tls", false, "talk to the brokers by TLS")
	fs.StringVar(&b.ca, "kafka-ca-file", "", "trust brokers by the certificates in this `FILE` instead of the system's")
	fs.StringVar(&b.cert, "kafka-cert-file", "", "`FILE` with the certificate that brokers know weir by")
	fs.StringVar(&b.key, "kafka-key-file", "", "`FILE` with the key of that certificate")
	mechanisms := []string{"plain", "scram-sha-256", "scram-sha-512"}
	b.sasl = cli.NewChoice(fs, "kafka-sasl", "", "log in by `MECHANISM`: "+strings.Join(mechanisms, ", "), mechanisms...)
	fs.StringVar(&b.user, "kafka-user", "", "log in as `USER`")
	b.password = config.NewSecret(fs, "kafka-password-file", "`FILE` with the password")
	return b
}

// given reports whether brokers are named.
func (b *brokerFlags) given() bool { return len(*b.addresses) > 0 }

// load takes what the command line leaves open out of the environment and the
// configuration file, and wants that brokers are named then.
func (b *brokerFlags) load(env *cli.Env, except ...string) error {
	if _, err := settings().Load(b.flags, env.Getenv, except...); err != nil {
		return err
	}
	if !b.given() {
		return cli.Usage("no brokers are named").Advise("name them with --brokers HOST:PORT or %s, or in the configuration file", config.Variable("brokers"))
	}
	return nil
}

// hosts returns the addresses of the brokers, with the usual port where none is said.
func (b *brokerFlags) hosts() (list []string, err error) {
	for _, some := range *b.addresses {
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

// cluster returns how the brokers are reached. It reads the files that are named and
// connects to nobody.
func (b *brokerFlags) cluster() (*kafka.Cluster, error) {
	hosts, err := b.hosts()
	if err != nil {
		return nil, err
	}
	password, err := b.password.Read()
	if err != nil {
		return nil, cli.Failure("password for the brokers: %w", err)
	}
	c := &kafka.Cluster{Brokers: hosts}
	err = c.Secure(kafka.Security{TLS: b.tls, CAFile: b.ca, CertFile: b.cert, KeyFile: b.key, Mechanism: b.sasl.Value, User: b.user, Password: password})
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	return c, nil
}

// reachable is how long commands that somebody looks at try to reach the brokers.
const reachable = 15 * time.Second

// reach returns the cluster when one of its brokers has let weir in.
func (b *brokerFlags) reach(ctx context.Context) (*kafka.Cluster, error) {
	c, err := b.cluster()
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

// settled calls ask until the answer is not one of brokers that have yet to settle.
func settled(ctx context.Context, ask func(context.Context) error) error {
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
	awaitTell  = 10 * time.Second // between two lines that say so
	awaitPause = time.Second
)

// await returns when check finds brokers that let weir in. What time does not heal,
// such as a wrong password, is an error at once.
func await(ctx context.Context, log *slog.Logger, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, awaitMost)
	defer cancel()
	begin, told := time.Now(), time.Time{}
	for {
		err := check(limited)
		if err == nil || kafka.Final(err) {
			return err
		}
		if now := time.Now(); now.Sub(told) >= awaitTell && now.Sub(begin) < awaitMost {
			told = now
			log.Warn("weir waits for the brokers", "error", err)
		}
		select {
		case <-time.After(awaitPause):
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return cli.Failure("after %s: %w", awaitMost, err)
		}
	}
}
