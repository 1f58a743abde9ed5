package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// The requests of this package are of versions that brokers from 2.3 to 4 understand.
const (
	metadataVersion    = 5
	listOffsetsVersion = 2
	fetchVersion       = 11
)

const (
	linkBuffer = 4 << 10   // of connections that carry small answers, or read large ones past the buffer
	connBuffer = 256 << 10 // of those that the library reads records from: half the time of its own 4 KiB
)

// link is a connection to one broker that has logged in. It is for one goroutine.
type link struct {
	*socket
	client string
	id     int32 // of the last request
}

// login connects to one broker and logs in, within DialTimeout. The library's
// connection and the socket are one; nothing is left unread between them.
func (c *Cluster) login(ctx context.Context, addr string, buffer int, p kafkago.Partition) (*kafkago.Conn, *socket, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("broker %q: want host:port, for example localhost:9092", addr)
	}
	p.Leader.Host = host
	if p.Leader.Port, err = strconv.Atoi(port); err != nil {
		return nil, nil, fmt.Errorf("broker %q: the port is no number", addr)
	}
	ctx, cancel := context.WithTimeout(ctx, c.dialTimeout())
	defer cancel()
	s, err := c.open(ctx, addr, buffer)
	if err != nil {
		return nil, nil, err
	}
	// The library does not end a login when its context does.
	stop := context.AfterFunc(ctx, func() { s.Close() })
	d := kafkago.Dialer{ClientID: c.clientID(), SASLMechanism: c.SASL, DialFunc: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
	conn, err := d.DialPartition(ctx, "tcp", addr, p)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		s.Close()
		return nil, nil, explain(addr, err)
	}
	s.login = false
	return conn, s, nil
}

// connect reaches one broker and logs in.
func (c *Cluster) connect(ctx context.Context, addr string) (*link, error) {
	_, s, err := c.login(ctx, addr, linkBuffer, kafkago.Partition{})
	if err != nil {
		return nil, err
	}
	return &link{socket: s, client: c.clientID()}, nil
}

// askAny lets the first of the brokers answer that can, beginning with the one that did
// last. When ask succeeds the link is its own to close.
func (c *Cluster) askAny(ctx context.Context, ask func(*link) error) error {
	if len(c.Brokers) == 0 {
		return errors.New("no broker is given: name at least one as host:port")
	}
	var problems []error
	first := int(c.good.Load())
	for i := range c.Brokers {
		at := (first + i) % len(c.Brokers)
		l, err := c.connect(ctx, c.Brokers[at])
		if err == nil {
			// Without a login this is the first that is said: whether a broker wants one, or
			// TLS, or is one at all, shows now.
			if err = ask(l); err == nil {
				c.good.Store(int32(at))
				return nil
			}
			l.Close()
			if !errors.Is(err, ErrUnreachable) && !Final(err) {
				return err
			}
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(problems...)
}

// ask sends a request and waits for the answer. After an error the link is closed.
func (l *link) ask(ctx context.Context, version int16, m protocol.Message) (protocol.Message, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	l.id++
	answer, err := protocol.RoundTrip(l, version, l.id, l.client, m)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		l.Close()
		return nil, explain(l.addr, err)
	}
	return answer, nil
}

// describe asks for the partitions of a topic, without creating it.
func (l *link) describe(ctx context.Context, topic string) (*metadata.Response, error) {
	answer, err := l.ask(ctx, metadataVersion, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return nil, err
	}
	m := answer.(*metadata.Response)
	if len(m.Topics) != 1 {
		return nil, fmt.Errorf("broker %s tells of %d topics when asked for %s", l.addr, len(m.Topics), topic)
	}
	if code := kafkago.Error(m.Topics[0].ErrorCode); code != 0 {
		if code == kafkago.UnknownTopicOrPartition {
			return nil, fmt.Errorf("%w: %s does not exist on %s: create it, or mend the name", ErrNoTopic, topic, l.addr)
		}
		return nil, fmt.Errorf("topic %s: %w", topic, explain(l.addr, code))
	}
	return m, nil
}

// leader connects to the broker that leads a partition.
func (c *Cluster) leader(ctx context.Context, topic string, partition int) (l *link, err error) {
	var addr string
	err = c.askAny(ctx, func(asked *link) error {
		var err error
		if addr, err = asked.leaderOf(ctx, topic, partition); err != nil {
			return err
		}
		if addr == asked.addr {
			l = asked
			return nil
		}
		asked.Close()
		return nil
	})
	if err != nil || l != nil {
		return l, err
	}
	if l, err = c.connect(ctx, addr); err != nil {
		return nil, fmt.Errorf("%w; %s is what the brokers name (advertised.listeners) as the leader of topic %s partition %d", err, addr, topic, partition)
	}
	return l, nil
}

// leaderOf asks who leads a partition.
func (l *link) leaderOf(ctx context.Context, topic string, partition int) (addr string, err error) {
	m, err := l.describe(ctx, topic)
	if err != nil {
		return "", err
	}
	for _, p := range m.Topics[0].Partitions {
		if int(p.PartitionIndex) != partition {
			continue
		}
		for _, b := range m.Brokers {
			if b.NodeID == p.LeaderID {
				return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), nil
			}
		}
		return "", fmt.Errorf("%w: topic %s partition %d has no leader just now: a broker is down or is taking over", ErrUnreachable, topic, partition)
	}
	return "", fmt.Errorf("topic %s has %d partitions: there is no partition %d", topic, len(m.Topics[0].Partitions), partition)
}

// Offsets that stand for an end of a partition in the place of a time.
const (
	latest   = -1
	earliest = -2
)

// offsetAt asks for the offset of the first record of a time, in Unix milliseconds, or
// later: -1 when there is none.
func (l *link) offsetAt(ctx context.Context, topic string, partition int, at int64) (int64, error) {
	answer, err := l.ask(ctx, listOffsetsVersion, &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
		Topic: topic, Partitions: []listoffsets.RequestPartition{{Partition: int32(partition), CurrentLeaderEpoch: -1, Timestamp: at}},
	}}})
	if err != nil {
		return 0, err
	}
	m := answer.(*listoffsets.Response)
	if len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("broker %s does not tell the offsets of topic %s partition %d", l.addr, topic, partition)
	}
	p := m.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, fmt.Errorf("topic %s partition %d: %w", topic, partition, explain(l.addr, kafkago.Error(p.ErrorCode)))
	}
	return p.Offset, nil
}

func (l *link) bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	// First the end, so that what retention deletes meanwhile does not put it before
	// the beginning.
	if end, err = l.offsetAt(ctx, topic, partition, latest); err != nil {
		return 0, 0, err
	}
	first, err = l.offsetAt(ctx, topic, partition, earliest)
	return min(first, end), end, err
}
