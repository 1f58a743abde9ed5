package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
type Cluster struct {
	Brokers     []string       // host:port of at least one broker; the others are found by it
	ClientID    string         // by what name the brokers log this program; default "weir"
	TLS         *tls.Config    // nil: no TLS
	SASL        sasl.Mechanism // nil: no login
	DialTimeout time.Duration  // longest time to reach one broker, TLS and login included, and to wait for its next word; default 10 s

	once      sync.Once
	client    *kafkago.Client
	transport *kafkago.Transport
	good      atomic.Int32 // index of the broker that answered last
	time      brokerTime
}

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
			Dial:        func(ctx context.Context, _, addr string) (net.Conn, error) { return c.open(ctx, addr, linkBuffer) },
			DialTimeout: c.dialTimeout(),
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
	c.Client()
	c.transport.CloseIdleConnections()
}

// Check reports whether some broker can be reached, lets this program in and answers.
func (c *Cluster) Check(ctx context.Context) error {
	return c.askAny(ctx, func(l *link) error {
		// For no topic at all: the brokers only.
		if _, err := l.ask(ctx, metadataVersion, &metadata.Request{TopicNames: []string{}}); err != nil {
			return err
		}
		l.Close()
		return nil
	})
}

// because returns why a request of Client failed: what Check finds, or the error itself.
func (c *Cluster) because(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if why := c.Check(ctx); why != nil {
		return why
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Dial connects to the broker that leads a partition. The connection reads through a
// large buffer; a read or write on it without a deadline ends after DialTimeout. Within
// DialTimeout for each broker that is tried, Dial either has a connection or says what
// stands in the way: see Final, ErrUnreachable, ErrLogin, ErrTLS and ErrNoTopic.
func (c *Cluster) Dial(ctx context.Context, topic string, partition int) (*kafkago.Conn, error) {
	l, err := c.leader(ctx, topic, partition)
	if err != nil {
		return nil, err
	}
	l.Close()
	conn, _, err := c.login(ctx, l.addr, connBuffer, kafkago.Partition{Topic: topic, ID: partition})
	return conn, err
}
