package app

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

var writeFormat = flag.String("write-format", "", "write the fixture of the state folder under this `NAME`, once for each format")

// formats are state folders as versions of weir have left them, each with the verdicts that
// it had given by then.
const formats = "testdata/formats"

// TestOlderStates opens each of them by this version, and goes on with it.
func TestOlderStates(t *testing.T) {
	if *writeFormat != "" {
		writeState(t, *writeFormat)
	}
	paths, err := filepath.Glob(filepath.Join(formats, "*.tar.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, path, dir)
			text, err := os.ReadFile(strings.TrimSuffix(path, ".tar.gz") + ".verdicts.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			fake := clock.NewFake()
			fake.Advance(time.Hour)
			r := begin(t, Options{StateDir: dir, Clock: fake, AdminTokenFile: tokenFile(t, adminSecret)})
			var told, folded []string
			for _, e := range entriesOf(t, r.store.Verdicts(0)) {
				told = append(told, string(e.Value))
			}
			if got := strings.Join(told, "\n") + "\n"; got != string(text) {
				t.Errorf("the verdicts are\n%s\nand were\n%s", got, text)
			}
			// A golden log gives the same verdicts, byte for byte.
			again, err := pump.NewReplay(t.Context(), pump.Options{Limits: limitfile.Default(), Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entriesOf(t, r.store.Journal(0)) {
				var ev events.Event
				if err := events.Decode(e.Value, &ev); err != nil {
					t.Fatal(err)
				}
				ev.Appended = e.Appended
				for _, v := range again.Fold(&ev, e.Offset) {
					if !strings.Contains(string(text), `"incident_id"`) { // as weir wrote verdicts before it knew incidents
						v.IncidentID, v.Cause = "", ""
					}
					folded = append(folded, string(v.AppendJSON(nil)))
				}
			}
			if got := strings.Join(folded, "\n") + "\n"; got != string(text) {
				t.Errorf("folded again the verdicts are\n%s\nand were\n%s", got, text)
			}
			r.want(r.do("GET", "/v1/flows/stopped", ""), 200, `"operator_stop"`)
			r.want(r.do("GET", "/v1/flows/loop", ""), 200, `"flow":"loop"`)
			stopped := call("stopped", 90, "a", "b")
			stopped.Time = events.StampOf(fake.Now())
			r.want(r.do("POST", "/v1/check", string(stopped.AppendJSON(nil))), 403, "operator_stop")
			r.want(r.do("GET", "/v1/deadletters", ""), 200, `"count":1`)
			r.want(r.do("GET", "/v1/agents/planner", ""), 200)
			r.want(r.do("POST", "/v1/events", lines(call("new", 1, "a", "b"))), 202)
		})
	}
}

// writeState has this version write a state folder with something of everything, and keeps it as a
// kill would leave it.
func writeState(t *testing.T, name string) {
	dir := t.TempDir()
	r := begin(t, Options{StateDir: dir, AdminTokenFile: tokenFile(t, adminSecret)})
	for n := range 40 {
		from, to := "a", "b"
		if n%2 == 1 {
			from, to = to, from
		}
		ev := call("loop", n, from, to)
		ev.Time = events.StampOf(r.fake.Now())
		if got := r.do("POST", "/v1/check", string(ev.AppendJSON(nil))); got.status != 200 && got.status != 403 && got.status != 402 {
			t.Fatal(got)
		}
		r.fake.Advance(time.Second)
	}
	for n := range 5 {
		r.fake.Advance(10 * time.Minute)
		open := call("open", n, "a", "b")
		open.From, open.To = events.Party{Agent: "planner"}, events.Party{Agent: "coder"}
		open.Time = events.StampOf(r.fake.Now())
		r.want(r.do("POST", "/v1/events", lines(open)), 202)
	}
	r.want(r.do("POST", "/v1/notes", `{"author":"planner","summary":"a note"}`), 202)
	r.until(func() bool { return r.do("GET", "/v1/agents/planner", "").status == 200 })
	r.want(r.do("POST", "/v1/events", "no event\n"), 400)
	r.want(r.do("POST", "/v1/flows/stopped/stop", `{"reason":"a test","by":"ann","for_s":1000000}`, "Authorization", "Bearer "+adminSecret), 202)
	r.until(func() bool { return len(entriesOf(t, r.store.Verdicts(0))) > 1 })
	var told strings.Builder
	for _, e := range entriesOf(t, r.store.Verdicts(0)) {
		fmt.Fprintf(&told, "%s\n", e.Value)
	}
	// What is written ahead of the database is of the format as well, and an end takes it along.
	r.want(r.do("POST", "/v1/events", lines(call("ahead", 1, "a", "b"))), 202)
	if err := errors.Join(os.MkdirAll(formats, 0o755), os.WriteFile(filepath.Join(formats, name+".verdicts.jsonl"), []byte(told.String()), 0o644)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(formats, name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	r.stop()
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(to, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func entriesOf(t *testing.T, log *state.Log) (all []state.Entry) {
	t.Helper()
	for from := int64(0); from < log.End(); from = int64(len(all)) {
		batch, err := log.Read(from, 1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, batch...)
	}
	return all
}
