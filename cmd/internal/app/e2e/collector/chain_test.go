package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"weir/cmd/internal/app"
	"weir/cmd/weirtest"
)

// weir runs a command that has to end well, and returns what it prints and tells.
func weir(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := weirtest.Command(t, weirtest.Options{}, args...)
	if code != 0 {
		t.Fatalf("weir %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout, stderr
}

// broker returns host:port of the broker.
func broker(t *testing.T) string {
	t.Helper()
	if addr := os.Getenv("KAFKA_ADDR"); addr != "" {
		return addr
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// startCollector runs a Collector with an OTLP receiver and an exporter to a topic, and
// returns the address of the receiver.
func startCollector(t *testing.T, brokerAddr, topic, encoding string) string {
	t.Helper()
	address := weirtest.Address(t)
	config := fmt.Sprintf(`{
		receivers: {otlp: {protocols: {http: {endpoint: %q}}}},
		exporters: {kafka: {brokers: [%q], traces: {topic: %q, encoding: %q}, partition_traces_by_id: true, producer: {required_acks: -1}, sending_queue: {num_consumers: 1}}},
		service: {telemetry: {metrics: {level: none}, logs: {level: warn}}, pipelines: {traces: {receivers: [otlp], exporters: [kafka]}}}}`,
		address, brokerAddr, topic, encoding)
	runCollector(t, address, config, kafkaexporter.NewFactory())
	return address
}

// runCollector runs a Collector with an OTLP receiver on the address, and one kind of exporter.
func runCollector(t *testing.T, address, config string, out exporter.Factory) {
	t.Helper()
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: func() (otelcol.Factories, error) {
			receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
			exporters, err2 := otelcol.MakeFactoryMap[exporter.Factory](out)
			return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, errors.Join(err, err2)
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{"yaml:" + config}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
		DisableGracefulShutdown: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- collector.Run(context.Background()) }()
	t.Cleanup(func() {
		collector.Shutdown()
		if err := <-ended; err != nil {
			t.Errorf("the Collector: %v", err)
		}
	})
	for poll := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the Collector does not start: %v", err)
		case <-poll.C:
			if conn, err := net.Dial("tcp", address); err == nil {
				poll.Stop()
				_ = conn.Close()
				return
			}
		}
	}
}

// pingPong lets a program of two agents, which an SDK traces, ask each other so often.
// It returns when all spans were taken.
func pingPong(t *testing.T, addresses []string, times int, more ...otlptracehttp.Option) {
	t.Helper()
	ctx := t.Context()
	var send []sdktrace.TracerProviderOption
	for _, address := range addresses {
		out, err := otlptracehttp.New(ctx, append([]otlptracehttp.Option{otlptracehttp.WithEndpoint(address), otlptracehttp.WithInsecure()}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		send = append(send, sdktrace.WithBatcher(out))
	}
	provider := sdktrace.NewTracerProvider(append(send, sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "orders"))))...)
	tracer := provider.Tracer("agents")
	agents := [2]string{"sales", "support"}
	var spans []trace.Span
	for i := range times {
		var visit trace.Span
		agent := agents[i%2]
		ctx, visit = tracer.Start(ctx, "invoke_agent "+agent, trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", agent)))
		_, chat := tracer.Start(ctx, "chat", trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.Int("gen_ai.usage.input_tokens", 10), attribute.Int("gen_ai.usage.output_tokens", 1)))
		chat.End()
		spans = append(spans, visit)
	}
	for i := range spans {
		spans[len(spans)-1-i].End()
	}
	if err := provider.ForceFlush(t.Context()); err != nil {
		t.Fatalf("send spans: %v", err)
	}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCollectorToVerdict sends spans by an SDK to a Collector, which writes them to a
// topic, from which weir ingest brings them onto the topic of events, and judges those.
func TestCollectorToVerdict(t *testing.T) {
	addr := broker(t)
	var before string
	for _, encoding := range []string{"otlp_json", "otlp_proto"} {
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(encoding, "_", "-"), time.Now().UnixNano())
		flags := []string{"--brokers", addr, "--events-topic", name + "-events", "--verdicts-topic", name + "-verdicts",
			"--activity-topic", name + "-activity", "--dead-letter-topic", name + "-letters", "--group", name}
		weir(t, append([]string{"topics", "create", "--partitions", "3", "--replication", "1"}, flags...)...)
		client := &kafkago.Client{Addr: kafkago.TCP(addr), Timeout: 30 * time.Second}
		made, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: name, NumPartitions: 2, ReplicationFactor: 1}}})
		if err == nil {
			err = made.Errors[name]
		}
		if err != nil {
			t.Fatal(err)
		}
		pingPong(t, []string{startCollector(t, addr, name, encoding)}, 24)
		awaitRecords(t, client, name)

		_, told := weir(t, append([]string{"ingest", "--from-topic", name, "--until", "end", "--log-format", "text"}, flags...)...)
		wrapping := map[string]string{"otlp_json": "envelope=none", "otlp_proto": `envelope="OTLP protobuf (spans)"`}[encoding]
		for _, part := range []string{"format=otlp", wrapping, "0 records refused"} {
			if !strings.Contains(told, part) {
				t.Errorf("%s: no %q in\n%s", encoding, part, told)
			}
		}
		verdicts, _ := weir(t, append([]string{"replay", "-o", "json", "--quiet"}, flags...)...)
		rules := stops(t, verdicts)
		t.Logf("%s: stopped by %s", encoding, rules)
		if rules == "" || before != "" && rules != before {
			t.Errorf("%s: stops %q, and %q before\n%.2000s", encoding, rules, before, verdicts)
		}
		before = rules
	}
}

// awaitRecords waits until the Collector has written something.
func awaitRecords(t *testing.T, client *kafkago.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for poll := time.NewTicker(20 * time.Millisecond); ; {
		offsets, err := client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: {kafkago.LastOffsetOf(0), kafkago.LastOffsetOf(1)}}})
		if err == nil {
			var n int64
			for _, p := range offsets.Topics[topic] {
				n += p.LastOffset
			}
			if n > 0 {
				poll.Stop()
				return
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("the Collector wrote nothing: %v", err)
		}
	}
}

// stops are the rules by which flows are stopped, in the order of the verdicts.
func stops(t *testing.T, verdicts string) string {
	t.Helper()
	var rules []string
	for line := range strings.Lines(verdicts) {
		var v struct {
			Action string `json:"action"`
			Rule   string `json:"rule_id"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if v.Action == "deny" || v.Action == "halt" {
			rules = append(rules, v.Rule)
		}
	}
	return strings.Join(rules, ", ")
}

// TestSDKToVerdict points an SDK straight at weir, with and without compression.
func TestSDKToVerdict(t *testing.T) {
	for _, compression := range []otlptracehttp.Compression{otlptracehttp.NoCompression, otlptracehttp.GzipCompression} {
		a, err := app.New(app.Options{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Addr()+"/v1/verdicts", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "text/event-stream")
		stream, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		pingPong(t, []string{a.Addr()}, 24, otlptracehttp.WithCompression(compression))
		var seen []byte
		for buf := make([]byte, 4096); !bytes.Contains(seen, []byte(`"action":"deny"`)) && !bytes.Contains(seen, []byte(`"action":"halt"`)); {
			n, err := stream.Body.Read(buf)
			if seen = append(seen, buf[:n]...); err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("no stop came: %v\n%.2000s", err, seen)
			}
		}
		cancel()
		_ = stream.Body.Close() // it was cancelled
		stop, done := context.WithTimeout(context.Background(), 20*time.Second)
		if err := a.Stop(stop); err != nil {
			t.Error(err)
		}
		done()
	}
}
