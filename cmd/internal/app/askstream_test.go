package app

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// TestAskStream checks on one connection. Each check counts as if it came by itself: with the rights
// and the rate of its caller at that time.
func TestAskStream(t *testing.T) {
	r := people(t, Options{}, map[string]string{"dan": "roles: ask, flows: f*, rate: 5"})
	body, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	req, err := http.NewRequest(http.MethodPost, "http://"+r.Addr()+"/v1/check/stream", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secretOf("dan"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	in := bufio.NewReader(resp.Body)
	ask := func(ev *events.Event, want string) {
		t.Helper()
		if _, err := out.Write(append(ev.AppendJSON(nil), '\n')); err != nil {
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Fatalf("got %s (%v), want %s", line, err, want)
		}
	}
	ask(call("f", 1, "a", "b"), `{"line":1,"status":200,"body":{"verdict":{`) // the request itself was the first of five
	ask(pumptest.SelfCall("f", 2), `"reason_code":"self_call"`)
	ask(call("g", 3, "a", "b"), `none of those of dan`)
	ask(call("f", 4, "a", "b"), `"status":200`)
	ask(call("f", 5, "a", "b"), `{"line":5,"status":429`)
	r.fake.Advance(time.Second)
	ask(call("f", 6, "a", "b"), `"status":200`)
	// Who is no longer known asks no more, on a stream that stands either.
	if err := os.WriteFile(r.o.AccessFile, []byte("eve: {token-sha256: "+strings.Repeat("0", 64)+", roles: observe}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	ask(call("f", 7, "a", "b"), `{"line":7,"status":401`)
	// A file that cannot be read changes nothing, and one that can counts from the next line on.
	if err := os.WriteFile(r.o.AccessFile, []byte("dan: {token-file: dan, roles: what}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil {
		t.Fatal("a role that does not exist is accepted")
	}
	ask(call("f", 8, "a", "b"), `{"line":8,"status":401`)
	writePeople(t, filepath.Dir(r.o.AccessFile), map[string]string{"dan": "roles: ask, flows: g*"})
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	ask(call("f", 9, "a", "b"), `none of those of dan`)
	ask(call("g", 10, "a", "b"), `{"line":10,"status":200`)
	writePeople(t, filepath.Dir(r.o.AccessFile), map[string]string{"dan": "roles: observe"})
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	ask(call("g", 11, "a", "b"), `{"line":11,"status":403`)
	if n := strings.Count(strings.Join(r.journalLines(), "\n"), `"ask":true`); n != 5 {
		t.Errorf("%d asks are in the journal, want 5", n)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := in.ReadString('\n'); !errors.Is(err, io.EOF) || rest != "" {
		t.Errorf("after the end: %q (%v)", rest, err)
	}
}
