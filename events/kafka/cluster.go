package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"
)

// Cluster is how to reach the brokers of one Kafka cluster. Its fields are set before
// the first use and not changed after it; its methods are safe for concurrent use. The
// zero TLS and SASL mean a plain connection without login.
//
// There are two ways to the brokers: links of this package's own, which say what is wrong and
// never wait without a bound, and the library's pooled client for all that has no hurry.
type Cluster struct {
	Brokers  []string       // host:port of at least one broker; the others are found by it
	ClientID string         // by what name the brokers log this program; default "weir"
	TLS      *tls.Config    // nil: no TLS
	SASL     sasl.Mechanism // nil: no login
	// Values puts JSON in place of the value of each record that is read; nil: values stay as they are. Its
	// error is one that time heals: the record is read again later. What it leaves it logs to the Reader's logger.
	Values      func(*Record, *slog.Logger) error
	DialTimeout time.Duration // longest time to reach one broker, TLS and login included, and to wait for its next word; default 10 s

	once      sync.Once
	client    *kafkago.Client
	transport *kafkago.Transport
	// A list with dead hosts in front costs their timeout once and not with each question.
	good    atomic.Int32 // index of the broker that answered last
	time    brokerTime
	idle    idleLinks
	fetches sharedFetches
}

// The defaults are given here and not set in the fields, which Client and links read at the
// same time.
func (c *Cluster) clientID() string           { return cmp.Or(c.ClientID, "weir") }
func (c *Cluster) dialTimeout() time.Duration { return cmp.Or(c.DialTimeout, 10*time.Second) }

// Client returns a client for the requests that a Cluster has no method for. All calls
// return the same one, with one pool of connections; it learns of new topics and of
// moved leaders within about two seconds. A request that has no deadline ends after
// half a minute. Its errors are those of the library; Check says more when it cannot
// reach the brokers.
func (c *Cluster) Client() *kafkago.Client {
	c.once.Do(func() {
		c.transport = &kafkago.Transport{
			// The library dials by open too, so that TLS and its faults are handled in one
			// place.
			Dial:        func(ctx context.Context, _, addr string) (net.Conn, error) { return c.open(ctx, addr) },
			DialTimeout: c.dialTimeout(),
			// The library's default of six seconds would leave requests with a leader that has
			// moved.
			MetadataTTL: 2 * time.Second,
			ClientID:    c.clientID(),
			SASL:        c.SASL,
		}
		c.client = &kafkago.Client{Addr: kafkago.TCP(c.Brokers...), Timeout: 30 * time.Second, Transport: c.transport}
	})
	return c.client
}

// Close closes the idle connections of Client. The Cluster may be used again after it.
func (c *Cluster) Close() {
	// Client makes the transport if it does not exist yet.
	c.Client()
	c.transport.CloseIdleConnections()
	c.idle.close()
}

// Check reports whether some broker can be reached, lets this program in and answers.
//
// Of several brokers that cannot be reached the error names each.
func (c *Cluster) Check(ctx context.Context) error {
	return c.askNew(ctx, func(l *link) error {
		// For no topic at all: the brokers only.
		if _, err := l.ask(ctx, metadataVersion, &metadata.Request{TopicNames: []string{}}); err != nil {
			return err
		}
		c.idle.put(l)
		return nil
	})
}

// because returns why a request of Client failed: what Check finds, or the error itself.
//
// The library's errors often say no more than that a deadline passed; what a fresh connection
// meets says more. A request that its own caller gave up needs no reason.
func (c *Cluster) because(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if why := c.Check(ctx); why != nil {
		return why
	}
	return fmt.Errorf("%s: %w", what, err)
}
