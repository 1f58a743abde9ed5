package stack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where docker-compose.yml publishes.
const (
	weirURL       = "http://127.0.0.1:8080"
	prometheusURL = "http://127.0.0.1:9090"
)

// checkout is a fresh copy of what the repository has, with its stack.
type checkout struct {
	*engine
	dir    string
	client string // the program of the image, run outside of it
}

// checkOut copies what git keeps or would keep into a folder.
func (e *engine) checkOut(name string) *checkout {
	e.t.Helper()
	c := &checkout{engine: e, dir: filepath.Join(e.work, name, "weir")}
	files := e.must(time.Minute, "git", "-c", "safe.directory="+*repo, "-C", *repo, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for file := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		from, to := filepath.Join(*repo, file), filepath.Join(c.dir, file)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // removed, and git has not been told
		}
		if err != nil {
			e.t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, info.Mode().Perm())
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
	return c
}

// up starts the stack as its user does, and ends it with the test.
func (c *checkout) up() error {
	c.t.Helper()
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		down := exec.CommandContext(ctx, filepath.Join(*setup, "engine/usr/bin/docker"), "compose", "down", "--volumes", "--timeout", "5")
		down.Dir, down.Env = c.dir, c.env
		if out, err := down.CombinedOutput(); err != nil {
			c.t.Errorf("compose down: %v\n%s", err, out)
		}
	})
	return c.makeUp()
}

// makeUp calls make up. An error has the last words of each service.
func (c *checkout) makeUp() error {
	c.t.Helper()
	begun := time.Now()
	_, err := c.run(15*time.Minute, c.dir, "make", "up")
	if err != nil {
		said, _ := c.run(30*time.Second, c.dir, "docker", "compose", "ps", "--all") // or nothing is said
		logs, _ := c.run(30*time.Second, c.dir, "docker", "compose", "logs", "--no-color", "--tail", "8")
		return fmt.Errorf("%w\n%s\n%s", err, said, logs)
	}
	c.t.Logf("make up: %v", time.Since(begun).Round(time.Second))
	return nil
}

// TestStack brings the stack up, sends a runaway in, sees it in a verdict, a metric and an
// alert, stops a flow by hand, and looks what is left after down and up.
func TestStack(t *testing.T) {
	e := startEngine(t)
	e.load(*repo)
	c := e.checkOut("fresh")
	if err := c.up(); err != nil {
		t.Fatal(err)
	}
	c.allWell()
	c.inOrder()
	c.takeClient()
	if status, said := c.post("/v1/events", "", "{}"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, said)
	}
	c.runaway("runaway-1")
	verdict := c.verdict("runaway-1")
	t.Logf("verdict: %s", verdict)
	c.alert("runaway-1", "WeirStopsIgnored")
	c.byHand()

	seen := time.Now()
	before := c.must(time.Minute, c.client, "flows", "show", "runaway-1", "-o", "json", "--token-file", c.secret("intake_token"))
	if _, err := c.run(3*time.Minute, c.dir, "make", "down"); err != nil {
		t.Fatal(err)
	}
	if left := c.must(time.Minute, "docker", "ps", "--all", "--quiet"); left != "" {
		t.Errorf("make down left containers: %s", left)
	}
	if err := c.makeUp(); err != nil {
		t.Fatal(err)
	}
	c.allWell()
	until(t, time.Minute, "weir knows the flow of before", func() bool {
		after, err := c.run(time.Minute, c.dir, c.client, "flows", "show", "runaway-1", "-o", "json", "--token-file", c.secret("intake_token"))
		return err == nil && eventsOf(after) >= eventsOf(before) && eventsOf(before) > 0
	})
	if again := c.verdict("runaway-1"); again != verdict {
		t.Errorf("after down and up the first verdict is\n%s\nbefore it was\n%s", again, verdict)
	}
	c.refused("by-hand", "operator_stop")
	if n := c.query("weir_calls_after_stop_total", seen); n == 0 {
		t.Error("Prometheus has forgotten what it saw before")
	}
}

// secret is the file of a secret.
func (c *checkout) secret(name string) string { return filepath.Join(c.dir, ".secrets", name) }

type container struct {
	Service, State, Health, ID string
	ExitCode                   int
}

func (c *checkout) containers() map[string]container {
	c.t.Helper()
	said, err := c.run(time.Minute, c.dir, "docker", "compose", "ps", "--all", "--no-trunc", "--format", "json")
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]container{}
	for d := json.NewDecoder(strings.NewReader(said)); d.More(); {
		var one container
		if err := d.Decode(&one); err != nil {
			c.t.Fatal(err)
		}
		all[one.Service] = one
	}
	return all
}

// allWell holds that each service runs and is healthy, and that the topics were made.
func (c *checkout) allWell() {
	c.t.Helper()
	all := c.containers()
	for _, name := range []string{"kafka", "weir", "prometheus", "grafana"} {
		if s := all[name]; s.State != "running" || s.Health != "healthy" {
			c.t.Errorf("%s is %s and %s", name, s.State, s.Health)
		}
	}
	if s := all["topics"]; s.State != "exited" || s.ExitCode != 0 {
		c.t.Errorf("topics is %s with exit code %d", s.State, s.ExitCode)
	}
}

// inOrder holds that each service began when what it needs was there.
func (c *checkout) inOrder() {
	c.t.Helper()
	all := c.containers()
	at := func(service, field string) time.Time {
		said := strings.TrimSpace(c.must(time.Minute, "docker", "inspect", "--format", "{{"+field+"}}", all[service].ID))
		when, err := time.Parse(time.RFC3339Nano, said)
		if err != nil {
			c.t.Fatalf("%s %s: %v", service, field, err)
		}
		return when
	}
	for _, step := range [][4]string{
		{"kafka", ".State.StartedAt", "topics", ".State.StartedAt"},
		{"topics", ".State.FinishedAt", "weir", ".State.StartedAt"},
		{"weir", ".State.StartedAt", "prometheus", ".State.StartedAt"},
		{"prometheus", ".State.StartedAt", "grafana", ".State.StartedAt"},
	} {
		if first, then := at(step[0], step[1]), at(step[2], step[3]); then.Before(first) {
			c.t.Errorf("%s %s at %v, and %s %s at %v", step[2], step[3], then, step[0], step[1], first)
		}
	}
}

// takeClient takes the program out of the image.
func (c *checkout) takeClient() {
	c.t.Helper()
	c.client = filepath.Join(filepath.Dir(c.dir), "weir-client")
	if _, err := c.run(time.Minute, c.dir, "docker", "compose", "cp", "weir:/weir", c.client); err != nil {
		c.t.Fatal(err)
	}
}

func (c *checkout) post(path, token, body string) (status int, said string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", weirURL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		text, err := os.ReadFile(c.secret(token))
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func call(flow, from, to string, n int, at time.Time) string {
	return fmt.Sprintf(`{"id":"%s-%d","time":%q,"kind":"agent.call","correlation_id":%q,"from":{"agent":%q},"to":{"agent":%q},"had_work":false,"content_hash":"xxh64:0123456789abcdef"}`+"\n",
		flow, n, at.UTC().Format(time.RFC3339Nano), flow, from, to)
}

// runaway is two agents that hand the same to each other.
func (c *checkout) runaway(flow string) {
	c.t.Helper()
	var body bytes.Buffer
	begun := time.Now().Add(-20 * time.Second)
	for n := range 20 {
		from, to := "planner", "coder"
		if n%2 == 1 {
			from, to = to, from
		}
		body.WriteString(call(flow, from, to, n, begun.Add(time.Duration(n)*time.Second)))
	}
	if status, said := c.post("/v1/events", "intake_token", body.String()); status != http.StatusAccepted {
		c.t.Fatalf("the runaway: %d %s", status, said)
	}
}

// verdict waits for the first verdict on a flow that refuses calls.
func (c *checkout) verdict(flow string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", weirURL+"/v1/verdicts?flow="+url.QueryEscape(flow), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := os.ReadFile(c.secret("intake_token"))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data:")
		var v struct{ ID, Action, Reason string }
		if is && json.Unmarshal([]byte(data), &v) == nil && v.Action == "deny" {
			return strings.TrimSpace(data)
		}
	}
	c.t.Fatalf("no verdict on %s within a minute (%v)", flow, ctx.Err())
	return ""
}

// alert goes on with the runaway, as a dispatcher does that honors nothing, until an alert
// fires in Prometheus.
func (c *checkout) alert(flow, name string) {
	c.t.Helper()
	n, begun := 100, time.Now()
	until(c.t, 4*time.Minute, "the alert "+name+" fires", func() bool {
		var body bytes.Buffer
		for range 3 {
			body.WriteString(call(flow, "planner", "coder", n, time.Now()))
			n++
		}
		if status, said := c.post("/v1/events", "intake_token", body.String()); status != http.StatusAccepted {
			c.t.Fatalf("%d %s", status, said)
		}
		return c.query(fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, name), time.Time{}) > 0
	})
	c.t.Logf("the alert %s fires after %v; verdicts that refuse: %v, calls against them: %v", name, time.Since(begun).Round(time.Second),
		c.query(`sum(weir_verdicts_total{action="deny"})`, time.Time{}), c.query("sum(weir_calls_after_stop_total)", time.Time{}))
	if c.query(`sum(weir_verdicts_total{action="deny"})`, time.Time{}) == 0 {
		c.t.Error("Prometheus counts no verdict")
	}
}

// query asks Prometheus for the largest value of an expression, now or at a time.
func (c *checkout) query(expr string, at time.Time) (largest float64) {
	c.t.Helper()
	q := url.Values{"query": {expr}}
	if !at.IsZero() {
		q.Set("time", at.UTC().Format(time.RFC3339))
	}
	resp, err := http.Get(prometheusURL + "/api/v1/query?" + q.Encode())
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		c.t.Fatalf("%s: %s %v", expr, answer.Error, err)
	}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			c.t.Fatal(err)
		}
		largest = max(largest, v)
	}
	return largest
}

// byHand stops an honest flow by the command that docker-compose.yml names, and tries what
// else wants the admin token.
func (c *checkout) byHand() {
	c.t.Helper()
	if status, said := c.post("/v1/events", "intake_token", call("by-hand", "reader", "writer", 1, time.Now())); status != http.StatusAccepted {
		c.t.Fatalf("%d %s", status, said)
	}
	why := []string{"--reason", "tried by hand", "--token-file"}
	if _, err := c.run(time.Minute, c.dir, c.client, slices.Concat([]string{"flows", "stop", "by-hand"}, why, []string{".secrets/intake_token"})...); err == nil {
		c.t.Error("the token for events stops a flow")
	}
	for _, args := range [][]string{
		{"flows", "stop", "released"}, {"flows", "release", "released"},
		{"limits", "override", "--flow", "released", "--rule", "max_total_calls", "--stop", "500", "--for", "10m"},
		{"flows", "stop", "by-hand"},
	} {
		if _, err := c.run(time.Minute, c.dir, c.client, slices.Concat(args, why, []string{".secrets/admin_token"})...); err != nil {
			c.t.Error(err)
		}
	}
	c.refused("by-hand", "operator_stop")
}

// refused waits until a call in a flow is refused for a reason.
func (c *checkout) refused(flow, reason string) {
	c.t.Helper()
	n, said := 1000, ""
	defer func() { c.t.Logf("%s: %s", flow, said) }()
	until(c.t, time.Minute, "a call of "+flow+" is refused", func() bool {
		_, said = c.post("/v1/check", "intake_token", call(flow, "reader", "writer", n, time.Now()))
		n++
		return strings.Contains(said, `"reason_code":"`+reason+`"`)
	})
}

// eventsOf is how many events a flow has by what weir flows show prints.
func eventsOf(shown string) int {
	var v struct{ Events int }
	if json.Unmarshal([]byte(shown), &v) != nil {
		return 0
	}
	return v.Events
}
