package app

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
)

// cpuTime is what this process has computed.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU says what an operation computes, in all goroutines. On a busy machine it says
// more than the time that went by.
func reportCPU(b *testing.B, since time.Duration) {
	b.ReportMetric(float64(cpuTime(b)-since)/float64(b.N), "cpu-ns/op")
}

// BenchmarkEmbedded is the whole embedded path: bodies of a thousand events through
// the intake, the journal, the fold, the verdict log and checkpoints, all synced.
func BenchmarkEmbedded(b *testing.B) {
	a, err := New(Options{Listen: "127.0.0.1:0", StateDir: b.TempDir()})
	if err == nil {
		err = a.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := a.Stop(b.Context()); err != nil {
			b.Error(err)
		}
	}()
	const batch, rounds = 1000, 100
	records := pumptest.Steady(1000, batch*rounds, 0)
	bodies := make([][]byte, rounds)
	for i := range bodies {
		for _, r := range records[i*batch : (i+1)*batch] {
			bodies[i] = append(append(bodies[i], r.Value...), '\n')
		}
	}
	post := func(path string, body []byte, want int) {
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, bytes.NewReader(body))
		w := httptest.NewRecorder()
		a.api.Handler().ServeHTTP(w, req)
		if w.Code != want {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer reportCPU(b, cpuTime(b))
	for i := 0; i*batch < b.N; i++ {
		if i > 0 && i%rounds == 0 {
			b.StopTimer()
			records = pumptest.Steady(1000, batch*rounds, i/rounds)
			for j := range bodies {
				bodies[j] = bodies[j][:0]
				for _, r := range records[j*batch : (j+1)*batch] {
					bodies[j] = append(append(bodies[j], r.Value...), '\n')
				}
			}
			b.StartTimer()
		}
		post("/v1/events", bodies[i%rounds], http.StatusAccepted)
	}
	ev := call("barrier", 1, "a", "b")
	post("/v1/check", ev.AppendJSON(nil), http.StatusOK) // everything before it is folded
}

// BenchmarkCheckMany is BenchmarkCheck by one dispatcher that checks a fixed number of calls in one
// body. An operation is one check.
func BenchmarkCheckMany(b *testing.B) {
	for _, many := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("asks=", many), func(b *testing.B) {
			a, err := New(Options{Listen: "127.0.0.1:0", StateDir: b.TempDir()})
			if err == nil {
				err = a.Start(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := a.Stop(b.Context()); err != nil {
					b.Error(err)
				}
			}()
			var body []byte
			b.ResetTimer()
			defer reportCPU(b, cpuTime(b))
			for n := 0; n < b.N; {
				body = body[:0]
				asked := min(many, b.N-n)
				for range asked {
					ev := call(fmt.Sprint("f", n), 1, "a", "b")
					body = append(ev.AppendJSON(body), '\n')
					n++
				}
				r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/check", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/x-ndjson")
				w := httptest.NewRecorder()
				a.api.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusOK || bytes.Count(w.Body.Bytes(), []byte(`{"status":200,`)) != asked {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// BenchmarkCheck is one ask and its answer, synced, by several dispatchers at a time.
func BenchmarkCheck(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint("dispatchers=", parallel), func(b *testing.B) {
			a, err := New(Options{Listen: "127.0.0.1:0", StateDir: b.TempDir()})
			if err == nil {
				err = a.Start(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := a.Stop(b.Context()); err != nil {
					b.Error(err)
				}
			}()
			next := make(chan int, parallel)
			done := make(chan error, parallel)
			for range parallel {
				go func() {
					for n := range next {
						ev := call(fmt.Sprint("f", n), 1, "a", "b")
						w := httptest.NewRecorder()
						a.api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/check", bytes.NewReader(ev.AppendJSON(nil))))
						if w.Code != http.StatusOK {
							done <- fmt.Errorf("%d %s", w.Code, w.Body)
							return
						}
					}
					done <- nil
				}()
			}
			b.ResetTimer()
			defer reportCPU(b, cpuTime(b))
			for n := range b.N {
				next <- n
			}
			close(next)
			for range parallel {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
