package e2e

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/analyzer/limitfile"
	"weir/cmd/weirtest"
	"weir/events"
)

var writeTopics = flag.String("write-topics", "", "write the fixture of the topics under this `NAME`, once for each format")

// topicFixtures are the topics of a group as versions of weir have left them.
const topicFixtures = "testdata/topics"

// ofVersion are the fields of a verdict that another version of weir may write otherwise: the text, and the
// version of the default limits, which changes with each new rule.
var ofVersion = regexp.MustCompile(`"message":"(?:[^"\\]|\\.)*",|"config_version":"[^"]*",`)

// kept is a record of a fixture.
type kept struct {
	Topic      string
	Partition  int32
	Time       int64
	Key, Value []byte
	Headers    []kgo.RecordHeader
}

// keptGroup is the group of the fixtures, on a broker of its own.
func keptGroup(t *testing.T) *members {
	g := newGroup(t, startFake(t), 2)
	g.name = "kept"
	for _, topic := range []*string{&g.topics.Events, &g.topics.Activity, &g.topics.Verdicts, &g.topics.DeadLetters} {
		_, name, _ := strings.Cut(*topic, ".")
		*topic = g.name + "." + name
		partitions := g.partitions
		if topic == &g.topics.Verdicts || topic == &g.topics.DeadLetters {
			partitions *= 2
		}
		g.b.createTopic(t, *topic, partitions, "retention.ms=-1")
	}
	return g
}

// TestOlderTopics has a member of this version take over topics that older ones have left: it
// publishes nothing again that is there, and goes on.
func TestOlderTopics(t *testing.T) {
	t.Parallel()
	if *writeTopics != "" {
		writeFixture(t, filepath.Join(topicFixtures, *writeTopics+".jsonl.gz"))
	}
	paths, err := filepath.Glob(filepath.Join(topicFixtures, "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := keptGroup(t)
			client := g.b.franz(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(z)
			for lines.Buffer(nil, 1<<20); lines.Scan(); {
				var r kept
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
				one := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Time), Key: r.Key, Value: r.Value, Headers: r.Headers}
				if err := client.ProduceSync(t.Context(), one).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			was := g.verdicts()
			if len(was) == 0 {
				t.Fatal("the topics hold no verdict")
			}
			m := g.start(g.options(t.TempDir()))
			g.folded(m)
			if now := g.verdicts(); len(now) != len(was) {
				t.Errorf("%d verdicts were there, and now there are %d", len(was), len(now))
			}
			g.produce(loops("later", 6, 12)...)
			g.folded(m)
			m.stop()
			if now := g.verdicts(); len(now) <= len(was) {
				t.Errorf("%d verdicts were there, and now there are %d", len(was), len(now))
			}
			// Verdicts before incidents are more, and have no incident. Those that this version published are compared.
			older := !strings.Contains(was[0], `"incident_id":`)
			g.checkAs(func(verdict string) string {
				if older && !strings.Contains(verdict, `"correlation_id":"later-`) {
					return ""
				}
				return ofVersion.ReplaceAllString(verdict, "")
			}, limitfile.Default())
		})
	}
}

// writeFixture has this version write topics with something of everything.
func writeFixture(t *testing.T, path string) {
	g := keptGroup(t)
	m := g.start(g.options(t.TempDir()))
	g.produce(loops("loop", 6, 12)...)
	s := &story{name: "tree"}
	for i := range int64(40) {
		ev := events.Event{ID: fmt.Sprint("tree-", i), Kind: events.AgentCall, From: events.Party{Agent: "planner"}, To: events.Party{Agent: fmt.Sprint("coder-", i%3)}}
		inTree(&ev, i%8)
		s.at(time.Duration(i)*time.Second, ev)
	}
	for i := range 4 {
		s.reports(time.Duration(i)*time.Minute, "quiet")
	}
	s.ticks(g, 5*time.Minute, 60*time.Minute, 5*time.Minute)
	g.produce(s.list...)
	g.folded(m)
	m.stop()
	g.check(limitfile.Default())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	out := json.NewEncoder(z)
	for _, topic := range []string{g.topics.Events, g.topics.Activity, g.topics.Verdicts, g.topics.DeadLetters} {
		n, err := g.cluster.Partitions(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for p := range int32(n) {
			for _, r := range g.b.records(t, topic, p) {
				if err := out.Encode(kept{topic, p, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRollingUpgrade exchanges the members of a group, built from another revision, for this
// one's while events come, one in order and one by kill -9, and back: each verdict is there
// once, and as the plain fold says.
func TestRollingUpgrade(t *testing.T) {
	other := os.Getenv("WEIR_OTHER")
	if other == "" {
		t.Skip("WEIR_OTHER names no weir of another revision: make upgrade BASE=REVISION builds one")
	}
	b := startBroker(t)
	g := newGroup(t, b, 4, brokerTimes(b)...)
	this := weirtest.Binary(t)
	begin := func(binary, dir string) *weirtest.Weir {
		n := names{g.topics.Events, g.topics.Verdicts, g.topics.Activity, g.topics.DeadLetters, g.name}
		s := weirtest.Start(t, weirtest.Options{Binary: binary}, n.flags("run", b, "--state", dir, "--listen", "127.0.0.1:0", "--metrics", "", "--self-test", "0")...)
		s.Await("weir is running")
		return s
	}
	dirs := [2]string{t.TempDir(), t.TempDir()}
	one, two := begin(other, dirs[0]), begin(other, dirs[1])
	step := 0
	load := func() {
		step++
		g.produce(loops(fmt.Sprint("step", step), 40, 12)...)
	}
	load()
	one.End(syscall.SIGTERM)
	load()
	one = begin(this, dirs[0]) // both versions share the partitions
	load()
	two.End(syscall.SIGKILL)
	load()
	two = begin(this, dirs[1])
	load()
	back := begin(other, t.TempDir()) // and an older one joins once more
	load()
	one.End(syscall.SIGKILL)
	load()
	one = begin(this, dirs[0])
	back.End(syscall.SIGTERM)
	load()
	for _, s := range []*weirtest.Weir{one, two} {
		s.End(syscall.SIGTERM)
	}
	last := g.start(g.options(t.TempDir())) // without any state
	g.folded(last)
	last.stop()
	g.check(limitfile.Default())
}
