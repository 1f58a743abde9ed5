package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/events/kafka"
)

const benchRecords = 200_000

// BenchmarkRead reads a partition of 200,000 events of 300 bytes with a key of 31 from
// beginning to end, by the Reader and by what could stand in its place. With KAFKA_ADDR
// the CPU time is the client's alone; without it kfake's is in it.
func BenchmarkRead(b *testing.B) {
	at := startBroker(b)
	for _, codec := range []string{"none", "lz4", "zstd"} {
		topic := at.topic(b, 1)
		at.benchFill(b, topic, codec)
		for _, way := range []struct {
			name string
			read func(*testing.B, *broker, string) int
		}{
			{"Reader", readByReader},
			{"Conn.ReadMessage/buffered", func(b *testing.B, br *broker, topic string) int { return readByConn(b, br, topic, 256<<10, byMessage) }},
			{"Conn.ReadMessage", func(b *testing.B, br *broker, topic string) int { return readByConn(b, br, topic, 0, byMessage) }},
			{"Conn.Batch.Read/values,arena,buffered", func(b *testing.B, br *broker, topic string) int { return readByConn(b, br, topic, 256<<10, byValue) }},
			{"franz-go", readByFranz},
		} {
			b.Run(codec+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				var before, after syscall.Rusage
				var memory, memoryAfter runtime.MemStats
				runtime.ReadMemStats(&memory)
				_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
				total := 0
				for b.Loop() {
					total += way.read(b, at, topic)
				}
				_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
				runtime.ReadMemStats(&memoryAfter)
				cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
				b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(total)/cpu.Seconds(), "events/cpu-s")
				b.ReportMetric(float64(memoryAfter.Mallocs-memory.Mallocs)/float64(total), "allocs/event")
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(0, "B/op")
				b.ReportMetric(0, "allocs/op")
			})
		}
	}
}

func (b *broker) benchFill(t testing.TB, topic, codec string) {
	t.Helper()
	pack := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[codec]
	c := b.franz(t, kgo.ProducerBatchCompression(pack), kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(4000))
	var records []*kgo.Record
	for i := range benchRecords {
		value := fmt.Sprintf(`{"schema_version":1,"event_id":"%032x","time":"2026-11-20T14:00:00.%03dZ","correlation_id":"flow-%08d","type":"agent.call","from":"planner-%d","to":"worker-%d","tool":"search","args_hash":"xxh64:%016x","turn_id":"turn-%d"}`, uint64(i)*0x9e3779b97f4a7c15, i%1000, i%5000, i%7, i%31, uint64(i)*0x2545f4914f6cdd1d, i%12)
		value += strings.Repeat(" ", max(0, 300-len(value)))
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "correlation-%019d", i%5000), Value: []byte(value)})
		if len(records) == 500 || i == benchRecords-1 {
			if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			records = records[:0]
		}
	}
}

func readByReader(b *testing.B, br *broker, topic string) (n int) {
	r := kafka.NewReader(&kafka.Cluster{Brokers: []string{br.Addr}}, topic, 0, 0, kafka.ReaderOptions{})
	defer r.Close()
	var batch []kafka.Record
	for n < benchRecords {
		var err error
		if batch, err = r.Fetch(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		n += len(batch)
	}
	return n
}

func readByConn(b *testing.B, br *broker, topic string, buffer int, each func(*kafkago.Batch, []byte) error) (n int) {
	d := kafkago.Dialer{Timeout: 10 * time.Second}
	if buffer > 0 {
		d.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &bufferedConn{conn, bufio.NewReaderSize(conn, buffer)}, err
		}
	}
	conn, err := d.DialLeader(b.Context(), "tcp", br.Addr, topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	arena := make([]byte, 1<<20)
	for n < benchRecords {
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			b.Fatal(err)
		}
		batch := conn.ReadBatchWith(kafkago.ReadBatchConfig{MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 250 * time.Millisecond})
		for err = each(batch, arena); err == nil; err = each(batch, arena) {
			n++
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, kafkago.RequestTimedOut) {
			b.Fatal(err)
		}
		batch.Close()
	}
	return n
}

type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func byMessage(batch *kafkago.Batch, _ []byte) error {
	_, err := batch.ReadMessage()
	return err
}

// byValue reads neither keys nor times, which the Reader must give.
func byValue(batch *kafkago.Batch, arena []byte) error {
	_, err := batch.Read(arena)
	return err
}

func readByFranz(b *testing.B, br *broker, topic string) (n int) {
	c, err := kgo.NewClient(kgo.SeedBrokers(br.Addr), kgo.FetchMaxPartitionBytes(1<<20), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for n < benchRecords {
		got := c.PollFetches(b.Context())
		if err := got.Err(); err != nil {
			b.Fatal(err)
		}
		n += got.NumRecords()
	}
	return n
}
