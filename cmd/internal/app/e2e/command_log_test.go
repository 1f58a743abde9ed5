package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/events"
)

// recorded are the events of a file that the tests of the commands have.
const recorded = "../../../weir/testdata/events.jsonl"

// recordOf is a line of events as a record.
func recordOf(t *testing.T, line []byte) kafkago.Message {
	t.Helper()
	var ev events.Event
	if err := events.Decode(line, &ev); err != nil {
		t.Fatal(err)
	}
	return kafkago.Message{Key: []byte(ev.FlowKey()), Value: line}
}

// recordedMessages are the recorded events as records.
func recordedMessages(t *testing.T) (list []kafkago.Message) {
	t.Helper()
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		list = append(list, recordOf(t, bytes.TrimSpace(line)))
	}
	return list
}

// produce writes records to a topic. Nil for the balancer means murmur2.
func (b *broker) produce(t *testing.T, topic string, balancer kafkago.Balancer, list ...kafkago.Message) {
	t.Helper()
	if balancer == nil {
		balancer = kafkago.Murmur2Balancer{Consistent: true}
	}
	transport := &kafkago.Transport{} // that of the broker remembers for a while which topics there are
	defer transport.CloseIdleConnections()
	w := &kafkago.Writer{Addr: kafkago.TCP(b.Addr), Topic: topic, Balancer: balancer, BatchTimeout: time.Millisecond, RequiredAcks: kafkago.RequireAll, Transport: transport}
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.WriteMessages(ctx, list...); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// create makes the topics of the names by the command that does.
func (n names) create(t *testing.T, b *broker, partitions int) {
	t.Helper()
	expects(t, 0, nil, n.flags("topics create --replication 1", b, "--partitions", fmt.Sprint(partitions))...)
}

// verdictsOf are the lines of a replay without its summary.
func verdictsOf(t *testing.T, out string) (lines []string, summary map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, `{"summary"`) {
			lines = append(lines, line)
			continue
		}
		var last struct{ Summary map[string]any }
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
		summary = last.Summary
	}
	if summary == nil {
		t.Fatalf("no summary:\n%s", out)
	}
	return lines, summary
}

func TestReplayOfTopic(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 1)
	list := recordedMessages(t)
	b.produce(t, n.events, nil, list...)
	file, err := filepath.Abs(recorded)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := verdictsOf(t, expects(t, 0, nil, "replay", file, "-o", "json"))
	got, summary := verdictsOf(t, expects(t, 0, nil, n.flags("replay", b, "-o", "jsonl")...))
	if !slices.Equal(got, want) || len(want) == 0 || summary["events"] != float64(len(list)) {
		t.Errorf("from the topic\n%s%v\nfrom the file\n%s", strings.Join(got, ""), summary, strings.Join(want, ""))
	}

	// The same in three partitions, with something in between that is no event.
	three := newNames(t)
	three.create(t, b, 3)
	b.produce(t, three.events, nil, append([]kafkago.Message{{Key: []byte("k"), Value: []byte("no event")}}, list...)...)
	got, summary = verdictsOf(t, expects(t, 0, []string{"not read: "}, three.flags("replay", b, "-o", "json")...))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || summary["bad_records"] != 1.0 {
		t.Errorf("from three partitions\n%s%v\nfrom the file\n%s", strings.Join(got, ""), summary, strings.Join(want, ""))
	}
}

func TestReplayOfPartOfTopic(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 1)
	list := recordedMessages(t)
	b.produce(t, n.events, nil, list...)
	f := func(want int, args ...string) {
		t.Helper()
		_, summary := verdictsOf(t, expects(t, 0, nil, n.flags("replay -o json", b, args...)...))
		if summary["events"] != float64(want) {
			t.Errorf("%v: %v events, want %d", args, summary["events"], want)
		}
	}
	all := len(list)
	f(all, "--from", "beginning", "--until", "end")
	f(5, "--from", "3", "--until", "8")
	f(all-3, "--from", "3")
	f(0, "--from", "8", "--until", "3")
	f(0, "--from", "end")
	f(all, "--until", fmt.Sprint(all+100))
	f(all, "--from", "-1h")
	f(0, "--until", "-1h")
	f(0, "--from", "@2096-01-01T00:00:00Z")
	f(all, "--from", "@2026-01-01T00:00:00.5+02:00", "--until", "@2096-01-01T00:00:00Z")
	for _, wrong := range []string{"soon", "-1", "--1h", "@yesterday", "+5"} {
		expects(t, 2, []string{"--from: want "}, n.flags("replay", b, "--from", wrong)...)
	}
	expects(t, 1, []string{"no such topic"}, newNames(t).flags("replay", b)...)
}

// TestBacktestOfTopic tries limits on last week's records of a topic, and says of them what it
// says of the same events in a file. What is older than that is left out.
func TestBacktestOfTopic(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 3)
	n.events = b.topic(t, 3) // in a topic of weir the broker's times count, and nothing of today is old
	list := recordedMessages(t)
	older := recordOf(t, []byte(`{"id":"o","time":"2026-11-01T14:00:00Z","kind":"flow.start","correlation_id":"older"}`))
	older.Time = time.Now().Add(-8 * 24 * time.Hour)
	b.produce(t, n.events, nil, older)
	b.produce(t, n.events, nil, append(list, kafkago.Message{Key: []byte("k"), Value: []byte("no event")})...)
	read := func(args ...string) map[string]any {
		t.Helper()
		var report map[string]any
		if err := json.Unmarshal([]byte(expects(t, 0, nil, args...)), &report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	file, err := filepath.Abs(recorded)
	if err != nil {
		t.Fatal(err)
	}
	want := read("backtest", file, "-o", "json")
	got := read(n.flags("backtest -o json", b, "--from", "-7d")...)
	if want["events"] != float64(len(list)) || want["flows_stopped"] == 0.0 || got["bad_records"] != 1.0 {
		t.Errorf("%v of %d events in the file, %v stopped; %v bad records in the topic", want["events"], len(list), want["flows_stopped"], got["bad_records"])
	}
	for _, what := range []string{"events", "flows", "flows_warned", "flows_stopped", "calls", "calls_after_stop", "tokens", "rules"} {
		if !reflect.DeepEqual(got[what], want[what]) {
			t.Errorf("%s of the topic:\n%v\nof the file:\n%v", what, got[what], want[what])
		}
	}
	if whole := read(n.flags("backtest -o json", b)...); whole["events"] != float64(len(list)+1) {
		t.Errorf("%v events in the whole topic, want %d", whole["events"], len(list)+1)
	}
}

// TestReplayByLimitsOfTheLog judges by a limits.set in the log, and by others.
func TestReplayByLimitsOfTheLog(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 1)
	limits, err := filepath.Abs("../../../weir/testdata/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document := new(bytes.Buffer)
	if err := json.Compact(document, []byte(expects(t, 0, nil, "limits", "show", limits, "-o", "json"))); err != nil {
		t.Fatal(err)
	}
	set := events.Event{ID: "limits-1", Time: events.StampOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Kind: events.LimitsSet, Limits: document.Bytes()}
	b.produce(t, n.events, nil, kafkago.Message{Value: set.AppendJSON(nil)})
	b.produce(t, n.events, nil, recordedMessages(t)...)
	f := func(want string, args ...string) {
		t.Helper()
		got, summary := verdictsOf(t, expects(t, 0, nil, n.flags("replay -o json", b, args...)...))
		if !strings.Contains(strings.Join(got, ""), `"rule_id":"`+want+`"`) || summary["bad_records"] != 0.0 {
			t.Errorf("%v: no verdict of %s in\n%s%v", args, want, strings.Join(got, ""), summary)
		}
	}
	f("max_tool_calls")
	f("max_tool_calls", "--from", "2") // limits from before are in force
	f("repetition", "--profile", "balanced")
	f("max_tool_calls", "--set", "rules.max_tool_calls=2")
}

func TestLag(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 2)
	expects(t, 0, []string{"nobody", "0 records behind"}, n.flags("lag", b)...)
	list := recordedMessages(t)
	b.produce(t, n.events, nil, list...)
	b.produce(t, n.events, nil, kafkago.Message{Value: []byte("x")}, kafkago.Message{Value: []byte("x")}, kafkago.Message{Value: []byte("x")}, kafkago.Message{Value: []byte("x")})
	client := b.client()
	committed, err := client.OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{GroupID: n.group, GenerationID: -1,
		Topics: map[string][]kafkago.OffsetCommit{n.events: {{Partition: 0, Offset: 2}}}})
	if err != nil || committed.Topics[n.events][0].Error != nil {
		t.Fatal(err, committed)
	}
	var behind int64
	for line := range strings.Lines(expects(t, 0, nil, n.flags("lag -o json", b)...)) {
		var l struct {
			Topic     string
			Partition int
			Committed *int64
			End, Lag  int64
			Seconds   float64 `json:"seconds_behind"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		switch want := l.End; {
		case l.Topic == n.activity:
			if l.Committed != nil || l.Lag != 0 {
				t.Errorf("%s", line)
			}
		case l.Partition == 0 && (l.Committed == nil || *l.Committed != 2 || l.Lag != want-2), l.Partition == 1 && (l.Committed != nil || l.Lag != want):
			t.Errorf("%s", line)
		case l.Seconds < 0 || l.Seconds > 3600:
			t.Errorf("%s: so long this test does not run", line)
		}
		behind += l.Lag
	}
	if want := int64(len(list) + 4 - 2); behind != want {
		t.Errorf("%d behind, want %d", behind, want)
	}
	expects(t, 1, []string{"no such topic"}, newNames(t).flags("lag", b)...)
}

// TestLagBeforeABomb asks how much waits where what comes next cannot be read.
func TestLagBeforeABomb(t *testing.T) {
	// Apache Kafka unpacks what it takes for a topic of weir (compression.type), and refuses it.
	b, n := startFake(t), newNames(t)
	n.create(t, b, 1)
	b.send(t, &kgo.Record{Topic: n.events, Value: make([]byte, 33<<20)})
	expects(t, 0, []string{n.events}, n.flags("lag", b)...)
}
