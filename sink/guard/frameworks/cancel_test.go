package frameworks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestCallsInFlightAreCancelled has a stop by hand end a long call of each real library, and holds that
// the receipt says so.
func TestCallsInFlightAreCancelled(t *testing.T) {
	dir := folder(t)
	for _, c := range []struct{ name, environment string }{
		{"langgraph", "python"}, {"langgraph_tool", "python"}, {"mcp", "python"}, {"a2a", "python"}, {"mcp_task", "mcptasks"},
	} {
		t.Run(c.name, func(t *testing.T) { cancelOne(t, c.name, filepath.Join(dir, c.environment, "bin", "python")) })
	}
}

func cancelOne(t *testing.T, name, python string) {
	token := strings.Repeat("admin000", 5)
	file := filepath.Join(t.TempDir(), "admin")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := weirtest.Run(t, "--in-memory", "--admin-token-file", file)
	cmd := newScript(t.Context(), t, []string{python, "testdata/cancel_run.py", name, weir.URL})
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal("MISSING: ", err)
	}
	in := bufio.NewScanner(out)
	if !in.Scan() || in.Text() != "began" {
		_ = cmd.Wait()
		t.Fatalf("MISSING, or it failed: %q\n%.3000s", in.Text(), &cmd.errs)
	}
	do := func(method, path, body string) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, weir.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s %s", method, path, resp.Status, &text)
		}
		return text.Bytes()
	}
	given := time.Now()
	do("POST", "/v1/orders", `{"scope":"all","reason":"a test","by":"ann"}`)
	if !in.Scan() {
		_ = cmd.Wait()
		t.Fatalf("it failed:\n%.3000s", &cmd.errs)
	}
	t.Logf("ended %d ms after the stop was given", time.Since(given).Milliseconds())
	var got struct {
		Stopped string
		Seen    []string
	}
	if err := json.Unmarshal(in.Bytes(), &got); err != nil || !strings.Contains(got.Stopped, "Stopped by ann") && !strings.Contains(got.Stopped, "A person has stopped") || fmt.Sprint(got.Seen) != "[cancelled]" {
		t.Errorf("%s, %v", in.Text(), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %.3000s", err, &cmd.errs)
	}
}
