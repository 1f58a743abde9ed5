package collector

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"weir/cmd/internal/app"
	"weir/cmd/weirtest"
)

// backend is where a Collector brings spans and log events, as a view of traces would read them.
type backend struct {
	mu    sync.Mutex
	spans map[string]bool // trace and span of each
	logs  []plog.LogRecord
	came  chan struct{}
}

func (b *backend) takeSpans(_ context.Context, td ptrace.Traces) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range td.ResourceSpans().All() {
		for _, s := range r.ScopeSpans().All() {
			for _, span := range s.Spans().All() {
				b.spans[span.TraceID().String()+span.SpanID().String()] = true
			}
		}
	}
	return nil
}

func (b *backend) takeLogs(_ context.Context, ld plog.Logs) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range ld.ResourceLogs().All() {
		if name, _ := r.Resource().Attributes().Get("service.name"); name.Str() != "weir" {
			continue
		}
		for _, s := range r.ScopeLogs().All() {
			for _, x := range s.LogRecords().All() {
				own := plog.NewLogRecord()
				x.CopyTo(own)
				b.logs = append(b.logs, own)
			}
		}
	}
	select {
	case b.came <- struct{}{}:
	default:
	}
	return nil
}

func (b *backend) factory() exporter.Factory {
	return exporter.NewFactory(component.MustNewType("backend"), func() component.Config { return &struct{}{} },
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Traces, error) {
			return exporterhelper.NewTraces(ctx, set, c, b.takeSpans)
		}, component.StabilityLevelStable),
		exporter.WithLogs(func(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Logs, error) {
			return exporterhelper.NewLogs(ctx, set, c, b.takeLogs)
		}, component.StabilityLevelStable))
}

// TestVerdictsAsLogEvents lets a program send the same spans to a Collector and to weir, which
// sends its verdicts to that Collector: what it says of the run joins the run's spans there.
func TestVerdictsAsLogEvents(t *testing.T) {
	b := &backend{spans: map[string]bool{}, came: make(chan struct{}, 1)}
	address := weirtest.Address(t)
	runCollector(t, address, fmt.Sprintf(`{
		receivers: {otlp: {protocols: {http: {endpoint: %q}}}},
		exporters: {backend: {}, backend/weir: {}},
		service: {telemetry: {metrics: {level: none}, logs: {level: warn}},
		  pipelines: {traces: {receivers: [otlp], exporters: [backend]}, logs: {receivers: [otlp], exporters: [backend/weir]}}}}`, address), b.factory())
	a, err := app.New(app.Options{Listen: "127.0.0.1:0", OTLPLogs: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop, done := context.WithTimeout(context.Background(), 20*time.Second)
		defer done()
		if err := a.Stop(stop); err != nil {
			t.Error(err)
		}
	}()
	pingPong(t, []string{address, a.Addr()}, 24)
	ended := func() (stopped plog.LogRecord, all int, ok bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, r := range b.logs {
			if _, is := r.Attributes().Get("gen_ai.agent.finish_reason"); is {
				return r, len(b.logs), true
			}
		}
		return stopped, len(b.logs), false
	}
	record, _, ok := ended()
	for limit := time.After(time.Minute); !ok; record, _, ok = ended() {
		select {
		case <-b.came:
		case <-limit:
			t.Fatal("no log event says that a run was ended")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	said := func(m pcommon.Map, name string) string {
		v, _ := m.Get(name)
		return v.AsString()
	}
	t.Logf("%s %s: %s; finish_reason %s, trace %s, span %s", record.EventName(), record.SeverityText(), record.Body().AsString(),
		said(record.Attributes(), "gen_ai.agent.finish_reason"), record.TraceID(), record.SpanID())
	if !b.spans[record.TraceID().String()+record.SpanID().String()] {
		t.Errorf("the log event is of trace %s and span %s, of which the Collector has no span", record.TraceID(), record.SpanID())
	}
	if record.EventName() != "weir.verdict" || record.SeverityNumber() != plog.SeverityNumberError || record.Timestamp() == 0 || record.ObservedTimestamp() == 0 ||
		said(record.Attributes(), "gen_ai.agent.finish_reason") != "guardrail" || said(record.Attributes(), "weir.correlation_id") != record.TraceID().String() {
		t.Errorf("the log event is %v", record.Attributes().AsRaw())
	}
}
