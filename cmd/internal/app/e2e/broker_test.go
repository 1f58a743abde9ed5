package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

// broker is what a test talks to: a kfake in this process, or the real broker of
// KAFKA_ADDR, which other tests use at the same time.
type broker struct {
	// Addr is host:port of a plain listener.
	Addr string
	// Fake is the kfake behind Addr, to inject faults; nil for a real broker.
	Fake *kfake.Cluster

	// transport has the connections of the test. Those of kafkago.DefaultTransport outlive
	// it, and know by an address whatever cluster had it before.
	transport *kafkago.Transport
}

// startBroker gives a test its broker. Options are for kfake; a real broker has the
// configuration that it has.
func startBroker(t testing.TB, options ...kfake.Opt) *broker {
	t.Helper()
	if addr := os.Getenv("KAFKA_ADDR"); addr != "" {
		return newBroker(t, addr)
	}
	return startFake(t, options...)
}

// startFake is startBroker for tests that need what only kfake has, be it one fault or
// one option.
func startFake(t testing.TB, options ...kfake.Opt) *broker {
	t.Helper()
	options = append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second)}, options...)
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(c.Close)
	b := newBroker(t, c.ListenAddrs()[0])
	b.Fake = c
	return b
}

func newBroker(t testing.TB, addr string) *broker {
	b := &broker{Addr: addr, transport: &kafkago.Transport{}}
	t.Cleanup(b.transport.CloseIdleConnections)
	return b
}

func (b *broker) client() *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(b.Addr), Timeout: 30 * time.Second, Transport: b.transport}
}

// serial keeps the names of topics and groups apart within one run; the time of the
// start does so between runs on the same real broker.
var (
	serial  atomic.Int64
	started = time.Now().UnixMilli()
)

// unique is a name for a topic or a group that nobody else uses.
func unique(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%d-%d", name, started, serial.Add(1))
}

// topic makes a topic with a name that nobody else uses and returns the name. Settings
// are key=value.
func (b *broker) topic(t testing.TB, partitions int, settings ...string) string {
	t.Helper()
	name := unique(t)
	b.createTopic(t, name, partitions, settings...)
	return name
}

func (b *broker) createTopic(t testing.TB, name string, partitions int, settings ...string) {
	t.Helper()
	topic := kafkago.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		topic.ConfigEntries = append(topic.ConfigEntries, kafkago.ConfigEntry{ConfigName: key, ConfigValue: value})
	}
	client := b.client()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	made, err := client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{topic}})
	if err == nil {
		err = made.Errors[name]
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	// A real broker answers before every part of it knows the topic, and that it leads it.
	firsts := make([]kafkago.OffsetRequest, partitions)
	for p := range firsts {
		firsts[p] = kafkago.FirstOffsetOf(p)
	}
	led := func() (bool, error) {
		all, err := client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{name: firsts}})
		if err != nil {
			return false, err
		}
		for _, p := range all.Topics[name] {
			err = errors.Join(err, p.Error)
		}
		return err == nil && len(all.Topics[name]) == partitions, err
	}
	for again := time.NewTicker(20 * time.Millisecond); ; {
		meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{name}})
		if err == nil && len(meta.Topics) == 1 && meta.Topics[0].Error == nil && len(meta.Topics[0].Partitions) == partitions {
			var all bool
			if all, err = led(); all {
				again.Stop()
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("topic %s does not appear: %v", name, err)
		case <-again.C:
		}
	}
}

// TestBroker holds that both kinds of broker take a record and give it back.
func TestBroker(t *testing.T) {
	b := startBroker(t)
	name := b.topic(t, 3, "retention.ms=3600000")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := kafkago.DialLeader(ctx, "tcp", b.Addr, name, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.WriteMessages(kafkago.Message{Key: []byte("k"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	m, err := conn.ReadMessage(1 << 20)
	if err != nil || string(m.Key) != "k" || string(m.Value) != "v" {
		t.Fatalf("read %q %q, %v", m.Key, m.Value, err)
	}
}

// TestBrokerOfAnother holds that a test is not told of brokers that were at its address in
// a test before.
func TestBrokerOfAnother(t *testing.T) {
	var address string
	t.Run("before", func(t *testing.T) {
		b := startFake(t, kfake.NumBrokers(3))
		b.topic(t, 1)
		// Who makes topics is the controller, so the address is that of another broker.
		for _, address = range b.Fake.ListenAddrs() {
			if portOf(t, address) != b.controller(t) {
				break
			}
		}
		b.Addr = address
		b.topic(t, 1)
	})
	startFake(t, kfake.Ports(portOf(t, address))).topic(t, 1)
}

// controller is the port of the broker that makes topics.
func (b *broker) controller(t testing.TB) int {
	t.Helper()
	meta, err := b.client().Metadata(t.Context(), &kafkago.MetadataRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return meta.Controller.Port
}

// portOf is the port of a kfake's address.
func portOf(t testing.TB, address string) (port int) {
	t.Helper()
	if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &port); err != nil {
		t.Fatalf("port of %s: %v", address, err)
	}
	return port
}
