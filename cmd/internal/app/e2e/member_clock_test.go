package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/cmd/weirtest"
	"weir/events"
)

// setClock is a clock whose hands can be set, and that can have run for longer than it has.
type setClock struct {
	clock.System
	begun      time.Time
	hands, ran atomic.Int64
}

func (c *setClock) Now() time.Time        { return time.Now().Add(time.Duration(c.hands.Load())) }
func (c *setClock) Uptime() time.Duration { return time.Since(c.begun) + time.Duration(c.ran.Load()) }

// stoodClock stands still.
type stoodClock struct {
	clock.System
	at time.Time
}

func (c stoodClock) Now() time.Time { return c.at }

// TestMemberBacklogWorkedOff holds that the group is told of the end of a backlog when nothing more
// comes and not by the second, the limits that weir tells the log then included.
func TestMemberBacklogWorkedOff(t *testing.T) {
	g := newGroup(t, startBroker(t), 2)
	g.produce(loops("a", 8, 12)...)
	o := g.options(t.TempDir())
	o.Clock = stoodClock{at: time.Now()}
	m := g.start(o)
	g.folded(m)
}

// brokerTimes makes the topics of a group have the times of the broker, where there is a
// real one.
func brokerTimes(b *broker) []string {
	if b.Fake != nil {
		return nil
	}
	return []string{"message.timestamp.type=LogAppendTime"}
}

// TestMemberClockWrong runs the members of a group by clocks that are three hours ahead and
// behind, and set right again: deadlines fire by the time of the log, and a replay says the
// same.
func TestMemberClockWrong(t *testing.T) {
	b := startBroker(t)
	g := newGroup(t, b, 2, brokerTimes(b)...)
	calls := func(name string) {
		var list []kafkago.Message
		for _, m := range loops(name, 8, 12) {
			var ev events.Event
			if events.Decode(m.Value, &ev) == nil {
				ev.Time = events.StampOf(time.Now())
				m.Value = ev.AppendJSON(nil)
			}
			list = append(list, m)
		}
		g.produce(list...)
	}
	calls("before")
	var members []*running
	var clocks []*setClock
	for i, hours := range []time.Duration{3, -3} {
		o := g.options(t.TempDir())
		c := &setClock{begun: time.Now()}
		c.hands.Store(int64(hours * time.Hour))
		o.Clock, o.Tick, o.Listen = c, 50*time.Millisecond, weirtest.Address(t)
		o.Kafka.Advertise = "http://" + o.Listen
		members, clocks = append(members, g.start(o)), append(clocks, c)
		if i == 0 {
			g.until("the first is ready", func() bool { status, _ := members[0].get("/readyz"); return status == 200 })
		}
	}
	told := func() (least events.Stamp) { // the time up to which both partitions were told
		for n, records := range g.records(g.topics.Events) {
			latest := events.Stamp(0)
			for i := range records {
				var ev events.Event
				if events.Decode(records[i].Value, &ev) == nil && ev.Kind == events.Tick {
					latest = max(latest, ev.Time)
					if g.b.Fake == nil && i > 0 && ev.Time.Sub(records[i].Time) > 5*time.Second {
						t.Fatalf("partition %d was told that it is %v at %v", n, ev.Time.Time(), records[i].Time.Time())
					}
				}
			}
			if n == 0 || latest < least {
				least = latest
			}
		}
		return least
	}
	calls("wrong")
	if g.b.Fake == nil {
		begun := events.StampOf(time.Now())
		g.until("both partitions are told the time", func() bool { return told() >= begun })
	}
	for _, c := range clocks {
		c.hands.Store(0)
	}
	right := events.StampOf(time.Now())
	calls("right")
	g.until("both partitions are told the time", func() bool { return told() >= right })
	g.folded(members...)
	for _, m := range members {
		m.stop()
	}
	g.check(limitfile.Default())
}

// TestTopicTurnedBack lets a producer, or the broker before, tell a topic a time that is three
// hours ahead: a minute after nobody says so any more the topic is turned back, orders
// are of the right time again, and a replay says the same.
func TestTopicTurnedBack(t *testing.T) {
	g := newGroup(t, startBroker(t), 1, "message.timestamp.after.max.ms=86400000") // with the times that producers say
	o := g.options(t.TempDir())
	c := &setClock{begun: time.Now()}
	o.Clock, o.Tick = c, 20*time.Millisecond
	m := g.start(o)
	pair := func(flow string, n int, at time.Time) (list []kafkago.Message) {
		for i := range n {
			ev := events.Event{ID: fmt.Sprintf("%s-%d", flow, i), Source: "test", Time: events.StampOf(at), Kind: events.AgentCall, CorrelationID: flow,
				From: events.Party{Agent: "c"}, To: events.Party{Agent: "c"}, TransferMode: events.ReturnToCaller}
			list = append(list, kafkago.Message{Key: []byte(flow), Value: ev.AppendJSON(nil), Time: at})
		}
		return list
	}
	ahead := time.Now().Add(3 * time.Hour)
	g.produce(pair("ahead", 2, ahead)...)
	stopped := func(flow string) func() bool {
		return func() bool { return strings.Contains(strings.Join(g.verdicts(), "\n"), `"correlation_id":"`+flow+`"`) }
	}
	g.until("the topic is ahead", stopped("ahead"))
	g.until("it goes back", func() bool {
		c.ran.Add(int64(time.Second))
		for _, r := range g.records(g.topics.Events)[0] {
			if strings.Contains(string(r.Value), `:back"`) {
				return true
			}
		}
		return false
	})
	g.produce(pair("ahead", 4, time.Now())...)
	g.produce(pair("new", 2, time.Now())...)
	g.until("the new flow is stopped", stopped("new"))
	soon := events.RFC3339(events.StampOf(time.Now().Add(time.Hour)))
	for _, v := range g.verdicts() {
		if !strings.Contains(v, `"correlation_id":"new"`) {
			continue
		}
		var got events.Verdict
		if err := events.DecodeVerdict([]byte(v), &got); err != nil || got.ExpiresAt > soon {
			t.Errorf("%s, %v", v, err)
		}
	}
	m.stop()
	g.check(limitfile.Default())
}
