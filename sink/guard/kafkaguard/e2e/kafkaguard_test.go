// Package e2e tests kafkaguard against a broker. It has a module of its own because the
// broker has.
package e2e

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"weir/events"
	"weir/events/kafka"
	"weir/sink/guard"
	"weir/sink/guard/kafkaguard"
	sinkkafka "weir/sink/kafka"
	"weir/sink/sign"
)

const (
	topic      = "agent-verdicts"
	orders     = "agent-orders"
	partitions = 3
)

type rig struct {
	*testing.T
	ctx     context.Context
	cluster *kafka.Cluster
	n       int64
}

// begin starts a broker on the port, or on any when it is 0.
func startBroker(t *testing.T, port int, dir string) *kfake.Cluster {
	t.Helper()
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(dir)}
	if port != 0 {
		options = append(options, kfake.Ports(port))
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// give writes a verdict about a flow into a partition.
func (r *rig) give(partition int, flow string, action events.Action) {
	r.Helper()
	r.n++
	v := events.Verdict{ID: fmt.Sprint("v", r.n), Revision: r.n, Mode: "enforce", Action: action, Reason: events.MaxTotalCalls, CorrelationID: flow,
		Scope: events.Scope{Kind: "flow", ID: flow}, ExpiresAt: events.RFC3339(events.StampOf(time.Now().Add(time.Hour)))}
	r.write(partition, v.AppendJSON(nil))
}

func (r *rig) write(partition int, value []byte) {
	r.Helper()
	if _, err := sinkkafka.AppendTo(r.ctx, r.cluster, topic, partition, []sinkkafka.Message{{Key: []byte("k"), Value: value}}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) until(what string, holds func() bool) {
	r.Helper()
	for !holds() {
		if r.ctx.Err() != nil {
			r.Fatal("in vain: ", what)
		}
		runtime.Gosched()
	}
}

func TestGuardFollowsTheTopic(t *testing.T) {
	dir := t.TempDir()
	broker := startBroker(t, 0, dir)
	address := broker.ListenAddrs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r := &rig{T: t, ctx: ctx, cluster: &kafka.Cluster{Brokers: []string{address}}}
	defer r.cluster.Close()
	if _, err := r.cluster.CreateTopics(ctx, kafka.NewTopic{Name: topic, Partitions: partitions, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	r.give(0, "f0", "deny")
	r.give(1, "f1", "deny")
	r.give(1, "f1", "allow")
	r.write(1, []byte("no verdict"))

	g, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://127.0.0.1:1", Quiet: true, StaleAfter: 2 * time.Second}, Cluster: r.cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	decided := func(flow string, action events.Action, source guard.Source) {
		t.Helper()
		if d := g.Check(ctx, guard.Call{Flow: flow, From: "a", To: "b"}); d.Action != action || d.Source != source {
			t.Errorf("%s: %s by %s, want %s by %s", flow, d.Action, d.Source, action, source)
		}
	}
	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	// Ready means that everything that stood there is known.
	decided("f0", events.Deny, guard.FromTable)
	decided("f1", events.Allow, guard.FromTable)
	decided("f2", events.Allow, guard.FromTable)
	if g.Counts().Unreadable.Load() != 1 {
		t.Errorf("%d messages are no verdicts", g.Counts().Unreadable.Load())
	}
	r.give(2, "f2", "halt")
	r.until("a new order", func() bool { d := g.Check(ctx, guard.Call{Flow: "f2", From: "a", To: "b"}); return d.Stopped() })

	var port int
	if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	broker.Close()
	r.until("the broker is gone", g.Stale)
	decided("f0", events.Deny, guard.FromTable)
	decided("f9", events.Allow, guard.StaleOpen)
	startBroker(t, port, dir)
	r.until("the broker is back", func() bool { return !g.Stale() })
	decided("f0", events.Deny, guard.FromTable)
	decided("f9", events.Allow, guard.FromTable)
	r.give(0, "f0", "allow")
	r.until("the order is cleared", func() bool { d := g.Check(ctx, guard.Call{Flow: "f0", From: "a", To: "b"}); return !d.Stopped() })
}

// TestBackByTheTimesOfTheRecords holds that a guard whose clock is hours ahead of the brokers'
// misses no order that was given within Back of the last one, and reads none before it.
func TestBackByTheTimesOfTheRecords(t *testing.T) {
	broker := startBroker(t, 0, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &rig{T: t, ctx: ctx, cluster: &kafka.Cluster{Brokers: broker.ListenAddrs()}}
	defer r.cluster.Close()
	if _, err := r.cluster.CreateTopics(ctx, kafka.NewTopic{Name: topic, Partitions: 2, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-3 * time.Hour) // of the brokers; the second partition is empty
	for i, ago := range []time.Duration{2 * time.Hour, 50 * time.Minute, 0} {
		flow := fmt.Sprint("f", i)
		v := events.Verdict{ID: fmt.Sprint("v", i), Revision: 1, Mode: "enforce", Action: events.Deny, Reason: events.MaxTotalCalls, CorrelationID: flow,
			Scope: events.Scope{Kind: "flow", ID: flow}, ExpiresAt: events.RFC3339(events.StampOf(time.Now().Add(time.Hour)))}
		if _, err := sinkkafka.AppendTo(ctx, r.cluster, topic, 0, []sinkkafka.Message{{Key: []byte("k"), Value: v.AppendJSON(nil), Time: events.StampOf(now.Add(-ago))}}); err != nil {
			t.Fatal(err)
		}
	}
	g, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://127.0.0.1:1", Quiet: true}, Cluster: r.cluster, Back: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for flow, stopped := range map[string]bool{"f0": false, "f1": true, "f2": true} {
		if d := g.Check(ctx, guard.Call{Flow: flow, From: "a", To: "b"}); d.Stopped() != stopped {
			t.Errorf("%s is %s by %s", flow, d.Action, d.Source)
		}
	}
}

// TestSignedRecords holds the records of the topic to the signatures in their headers.
func TestSignedRecords(t *testing.T) {
	broker := startBroker(t, 0, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &rig{T: t, ctx: ctx, cluster: &kafka.Cluster{Brokers: broker.ListenAddrs()}}
	defer r.cluster.Close()
	if _, err := r.cluster.CreateTopics(ctx, kafka.NewTopic{Name: topic, Partitions: partitions, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	keys := sign.Keys{{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}}
	write := func(flow string, by sign.Keys) {
		t.Helper()
		r.n++
		v := events.Verdict{ID: fmt.Sprint("v", r.n), Revision: r.n, Mode: "enforce", Action: "deny", Reason: events.MaxTotalCalls, CorrelationID: flow, Scope: events.Scope{Kind: "flow", ID: flow}}
		m := sinkkafka.Message{Key: []byte("k"), Value: v.AppendJSON(nil)}
		if by != nil {
			m.Headers = []kafkago.Header{{Key: "weir-trigger", Value: []byte("1")}, {Key: sign.RecordHeader, Value: []byte(by.Sign(m.Value))}}
		}
		if _, err := sinkkafka.AppendTo(ctx, r.cluster, topic, int(r.n)%partitions, []sinkkafka.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
	write("signed", keys)
	write("unsigned", nil)
	write("forged", sign.Keys{{ID: "k1", Secret: []byte("another secret, not that of k1...")}})
	g, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://127.0.0.1:1", Quiet: true, Keys: keys}, Cluster: r.cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, flow := range []string{"signed", "unsigned", "forged"} {
		if d := g.Check(ctx, guard.Call{Flow: flow, From: "a", To: "b"}); d.Stopped() != (flow == "signed") {
			t.Errorf("%s: %s", flow, d.Action)
		}
	}
	if c := g.Counts(); c.Unsigned.Load() != 1 || c.Forged.Load() != 1 {
		t.Errorf("%d unsigned, %d forged", c.Unsigned.Load(), c.Forged.Load())
	}
}

// TestOrdersByHand gives orders in the topic of orders by hand: before the guard begins and while it
// follows, by records of weir and of others, and to a guard that checks signatures. A cluster without
// the topic has no orders, until it has one.
func TestOrdersByHand(t *testing.T) {
	for _, keys := range []sign.Keys{nil, {{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}}} {
		broker := startBroker(t, 0, t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r := &rig{T: t, ctx: ctx, cluster: &kafka.Cluster{Brokers: broker.ListenAddrs()}}
		defer r.cluster.Close()
		create := func(name string, partitions int) {
			t.Helper()
			if _, err := r.cluster.CreateTopics(ctx, kafka.NewTopic{Name: name, Partitions: partitions, Replication: 1}); err != nil {
				t.Fatal(err)
			}
		}
		order := func(key, text string) {
			t.Helper()
			if _, err := sinkkafka.AppendTo(ctx, r.cluster, orders, 0, []sinkkafka.Message{{Key: []byte(key), Value: []byte(text)}}); err != nil {
				t.Fatal(err)
			}
		}
		follow := func() *guard.Guard {
			t.Helper()
			g, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://127.0.0.1:1", Quiet: true, StaleAfter: time.Second, Keys: keys}, Cluster: r.cluster})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(g.Close)
			if err := g.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			return g
		}
		stopped := func(g *guard.Guard, agent string) bool {
			d := g.Check(ctx, guard.Call{Flow: "new", FromAgent: agent, ToAgent: "b"})
			return d.Reason == events.OperatorStopped // and not for its rate, while it is stale
		}
		create(topic, partitions)
		g := follow()
		if stopped(g, "a") {
			t.Error("a call is refused without an order")
		}
		create(orders, 1)
		order("all", `{"order":"stop","scope":"all","except":["agent:billing","agent:b"],"reason":"bad release","by":"ann"}`)
		r.until("the order of a new topic", func() bool { return stopped(g, "a") })
		late := follow()
		for i, g := range []*guard.Guard{g, late} {
			if !stopped(g, "a") || stopped(g, "billing") {
				t.Errorf("guard %d: a call is refused %v, an exception %v", i, stopped(g, "a"), stopped(g, "billing"))
			}
		}
		order("all", `no order`)
		order("all", `{"order":"release","scope":"all","reason":"over","by":"bob"}`)
		for _, g := range []*guard.Guard{g, late} {
			r.until("the release", func() bool { return !stopped(g, "a") })
			if n := g.Counts().Unreadable.Load(); n != 1 {
				t.Errorf("%d records are no orders", n)
			}
		}
	}
}

func TestWithoutBrokers(t *testing.T) {
	if _, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://127.0.0.1:1"}}); err == nil {
		t.Error("no brokers are taken for some")
	}
}
