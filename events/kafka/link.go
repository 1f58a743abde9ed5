package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// The requests of this package are of versions that brokers from 2.3 to 4 understand.
// They are fixed and not negotiated, so what is sent is what the tests have seen.
const (
	metadataVersion    = 5
	listOffsetsVersion = 2
	fetchVersion       = 11
)

// linkBuffer is that of a connection: it carries small answers, and large ones are read past the buffer.
const linkBuffer = 4 << 10

// link is a connection to one broker that has logged in. It is for one goroutine.
//
// It has one request under way at most.
type link struct {
	*socket
	client string
	id     int32 // of the last request
	// expires closes the link when it was idle for long; idleLinks guard it.
	expires *time.Timer
}

// connect reaches one broker and logs in, within DialTimeout.
//
// The library does the login, so that its mechanisms exist once. Its connection is the socket; nothing is left unread
// between them, and it is not used afterwards.
func (c *Cluster) connect(ctx context.Context, addr string) (*link, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("broker %q: want host:port, for example localhost:9092", addr)
	}
	// The library wants the broker of a partition in this form, also where there is no
	// partition.
	var p kafkago.Partition
	p.Leader.Host = host
	if p.Leader.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("broker %q: the port is no number", addr)
	}
	ctx, cancel := context.WithTimeout(ctx, c.dialTimeout())
	defer cancel()
	s, err := c.open(ctx, addr)
	if err != nil {
		return nil, err
	}
	// The library does not end a login when its context does.
	stop := context.AfterFunc(ctx, func() { s.Close() })
	// The dialer is handed the socket, which is open already.
	d := kafkago.Dialer{ClientID: c.clientID(), SASLMechanism: c.SASL, DialFunc: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
	_, err = d.DialPartition(ctx, "tcp", addr, p)
	// When the context ended the socket is closed, and the error says no more than that.
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		s.Close()
		return nil, explain(addr, err)
	}
	// From here on a broker that hangs up does not mean the login, see hungUp.
	s.login = false
	return &link{socket: s, client: c.clientID()}, nil
}

// askAny lets a broker answer: one by a link that is there, or else as askNew.
// When ask succeeds the link is its own to close.
func (c *Cluster) askAny(ctx context.Context, ask func(*link) error) error {
	for _, addr := range c.Brokers {
		if c.askIdle(addr, ask) {
			return nil
		}
	}
	return c.askNew(ctx, ask)
}

// askIdle asks a broker over an idle link. False means that there is none, or that it brought no
// answer: the broker may be gone, and a new link will show the fault.
func (c *Cluster) askIdle(addr string, ask func(*link) error) bool {
	l := c.idle.take(addr)
	if l == nil {
		return false
	}
	// A broker that is frozen shall not take its whole time twice. A link that is closed by it when it
	// has just answered is one that is gone.
	late := time.AfterFunc(idleFor, func() { l.Close() })
	err := ask(l)
	if answered := late.Stop() && err == nil; !answered {
		l.Close()
		return false
	}
	return true
}

// askNew lets the first of the brokers answer that can, by a new connection, beginning with the one
// that did last. When ask succeeds the link is its own to close.
//
// A broker that can be reached and gives an answer that is no hurdle to reach it, such as a
// topic that is not there, has answered: the others would say the same.
func (c *Cluster) askNew(ctx context.Context, ask func(*link) error) error {
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
			// Final counts as a hurdle as well: one broker of a list may have another port or
			// certificate.
			if !errors.Is(err, ErrUnreachable) && !Final(err) {
				return err
			}
		}
		problems = append(problems, err)
		// Who gave up does not wait for the other brokers.
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(problems...)
}

// ask sends a request and waits for the answer. After an error the link is closed.
//
// Closing the link from another goroutine, as the end of ctx does here, makes the read
// return.
func (l *link) ask(ctx context.Context, version int16, m protocol.Message) (protocol.Message, error) {
	// RoundTrip knows no context, so the end of one closes the connection.
	stop := context.AfterFunc(ctx, func() { l.Close() })
	l.id++
	answer, err := protocol.RoundTrip(l, version, l.id, l.client, m)
	// The answer may have come at the last moment; the link is closed in any case then.
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
//
// Metadata for a named topic creates it on brokers that are set so, unless the request says
// that it must not: version 5 has that field, and its zero value is no.
func (l *link) describe(ctx context.Context, topic string) (*metadata.Response, error) {
	answer, err := l.ask(ctx, metadataVersion, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return nil, err
	}
	m := answer.(*metadata.Response)
	if len(m.Topics) != 1 {
		return nil, fmt.Errorf("broker %s tells of %d topics when asked for %s", l.addr, len(m.Topics), topic)
	}
	// Any other code, such as a missing right, is reported with advice.
	if code := kafkago.Error(m.Topics[0].ErrorCode); code != 0 {
		if code == kafkago.UnknownTopicOrPartition {
			return nil, fmt.Errorf("%w: %s does not exist on %s: create it, or mend the name", ErrNoTopic, topic, l.addr)
		}
		return nil, fmt.Errorf("topic %s: %w", topic, explain(l.addr, code))
	}
	return m, nil
}

// leader connects to the broker that leads a partition.
//
// It costs a question more than it has to when the leader is not the first that is asked, and
// none when it is.
func (c *Cluster) leader(ctx context.Context, topic string, partition int) (l *link, err error) {
	var addr string
	err = c.askAny(ctx, func(asked *link) error {
		m, err := asked.describe(ctx, topic)
		if err != nil {
			return err
		}
		leaders := leadersOf(m)
		c.idle.learn(topic, leaders)
		switch addr = leaders[partition]; {
		case partition >= len(m.Topics[0].Partitions):
			return fmt.Errorf("topic %s has %d partitions: there is no partition %d", topic, len(m.Topics[0].Partitions), partition)
		case addr == "":
			return fmt.Errorf("%w: topic %s partition %d has no leader just now: a broker is down or is taking over", ErrUnreachable, topic, partition)
		}
		// One that was asked already is kept and not dialed again.
		if addr == asked.addr {
			l = asked
			return nil
		}
		c.idle.put(asked)
		return nil
	})
	if err != nil || l != nil {
		return l, err
	}
	if l, err = c.connect(ctx, addr); err != nil {
		// Brokers name themselves by what their operator has set, which is the commonest
		// reason why the first answers and the leader cannot be reached.
		return nil, fmt.Errorf("%w; %s is what the brokers name (advertised.listeners) as the leader of topic %s partition %d", err, addr, topic, partition)
	}
	return l, nil
}

// leadersOf are the addresses of who leads the partitions of the topic that was described. Those
// without a leader just now are left out: an election ends by itself.
func leadersOf(m *metadata.Response) map[int]string {
	brokers := make(map[int32]string, len(m.Brokers))
	for _, b := range m.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	addrs := make(map[int]string, len(m.Topics[0].Partitions))
	for _, p := range m.Topics[0].Partitions {
		if addr, ok := brokers[p.LeaderID]; ok {
			addrs[int(p.PartitionIndex)] = addr
		}
	}
	return addrs
}

// askLeader asks the broker that leads a partition: the one that did a moment ago over an existing
// link, else the one that brokers name.
func (c *Cluster) askLeader(ctx context.Context, topic string, partition int, ask func(*link) error) error {
	keep := func(l *link) error {
		err := ask(l)
		if err == nil {
			c.idle.put(l)
		}
		return err
	}
	if addr := c.idle.leader(topic, partition); addr != "" && c.askIdle(addr, keep) {
		return nil
	}
	l, err := c.leader(ctx, topic, partition)
	if err != nil {
		return err
	}
	if err = keep(l); err != nil {
		l.Close()
	}
	return err
}

// Offsets that stand for an end of a partition in the place of a time.
const (
	latest   = -1
	earliest = -2
)

// offsetAt asks for the offset of the first record of a time, in Unix milliseconds, or
// later: -1 when there is none.
//
// Times are those of the records, which are the broker's or the producer's as the topic is
// set.
func (l *link) offsetAt(ctx context.Context, topic string, partition int, at int64) (int64, error) {
	// Version 2 of the request asks for one offset; -1 as epoch is not known, as replica none.
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

// bounds gives the offset of the first record and the one behind the last, of one link.
func (l *link) bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	// The end comes first, so that retention meanwhile does not put it before the beginning. An
	// empty partition begins there as well.
	if end, err = l.offsetAt(ctx, topic, partition, latest); err != nil || end == 0 {
		return 0, 0, err
	}
	first, err = l.offsetAt(ctx, topic, partition, earliest)
	return min(first, end), end, err
}
