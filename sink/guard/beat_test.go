package guard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/sink/guard/guardtest"
)

// TestNextHeartbeat holds the guards of all languages to one reading of the answer to a heartbeat. 0 is for an
// answer that sets no time within bounds, as that of an older weir, which is empty.
func TestNextHeartbeat(t *testing.T) {
	var answers []string
	var want []int64
	for _, c := range []struct {
		answer string
		want   int64
	}{
		{``, 0}, {`{}`, 0}, {`{`, 0}, {`null`, 0}, {`[]`, 0}, {`7`, 0}, {`{"next_ms":null}`, 0}, {`{"next_ms":"2000"}`, 0}, {`{"next_ms":true}`, 0}, {`{"next_ms":2000.5}`, 0},
		{`{"next_ms":0}`, 0}, {`{"next_ms":-2000}`, 0}, {`{"next_ms":249}`, 0}, {`{"next_ms":250}`, 250}, {`{"next_ms":251}`, 251}, {`{"next_ms":2000,"new":[1]}`, 2000},
		{`{"next_ms":59999}`, 59999}, {`{"next_ms":60000}`, 60000}, {`{"next_ms":60001}`, 0}, {`{"next_ms":1` + strings.Repeat("0", 30) + `}`, 0},
		{strings.Repeat("[", 100_000), 0},
	} {
		answers, want = append(answers, c.answer), append(want, c.want)
	}
	for i, answer := range answers {
		if got, ok := nextBeat([]byte(answer)); got.Milliseconds() != want[i] || ok != (want[i] > 0) {
			t.Errorf("go: %.40q: %v %v, want %d ms", answer, got, ok, want[i])
		}
	}
	given, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			args := []string{"testdata/beats.py", command[2]}
			if l.name == "typescript" {
				args = []string{"testdata/beats.mjs", filepath.Dir(command[2])}
			}
			run := exec.Command(command[0], args...)
			run.Stdin, run.Stderr = bytes.NewReader(given), os.Stderr
			out, err := run.Output()
			var got []int64
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		})
	}
}

// TestHeartbeatsWhenWeirWants has a guard without orders, which sends a heartbeat every 20 s otherwise, send one
// when the answer to the last one says. One whose connection breaks is sent again.
func TestHeartbeatsWhenWeirWants(t *testing.T) {
	t.Parallel()
	w := guardtest.New()
	beats := make(chan struct{}, 100)
	var came atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/guards" {
			w.ServeHTTP(rw, r)
			return
		}
		beats <- struct{}{}
		if came.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = rw.Write([]byte(`{"next_ms":250}`))
	}))
	g, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		w.Set(guardtest.Away) // so that streams end
		s.Close()
	})
	late := time.After(time.Minute)
	for n := range 5 {
		select {
		case <-beats:
		case <-late:
			t.Fatalf("%d heartbeats in a minute", n)
		}
	}
}
