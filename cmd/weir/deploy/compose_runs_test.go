package deploy

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"weir/cmd/weirtest"
)

// composed is what docker-compose.yml says, run as processes on this machine.
type composed struct {
	*weirtest.Journey
	project *types.Project
	here    *strings.Replacer // from addresses and paths of the containers to those of this machine
	url     string
	env     []string
	secrets string
}

// TestComposeRuns runs the services topics and weir of docker-compose.yml without Docker: their commands, variables,
// secrets and the health check, beside a broker. make stack runs the file by a real Docker.
func TestComposeRuns(t *testing.T) {
	c := compose(t)
	c.Lines = 1 // make up
	if code, _, errs := weirtest.Command(t, weirtest.Options{}, c.args(c.project.Services["topics"].Command)...); code != 0 {
		t.Fatalf("the service topics exits with %d:\n%s", code, errs)
	}
	service := c.project.Services["weir"]
	up := func() *weirtest.Weir {
		t.Helper()
		w := weirtest.Start(t, weirtest.Options{Env: c.env}, c.args(service.Command)...)
		w.Await("weir is running")
		c.healthy(service)
		return w
	}
	w := up()
	if status, _ := c.post("", "{}"); status != http.StatusUnauthorized {
		t.Errorf("without a token the status is %d", status)
	}
	c.runaway("runaway-1")
	verdict := c.verdict("runaway-1")
	c.byHand("by-hand")
	c.scraped()
	begun := time.Now()
	if code := w.End(syscall.SIGTERM); code != 0 || time.Since(begun) > time.Duration(*service.StopGracePeriod) {
		t.Errorf("weir exits with %d, %v after SIGTERM", code, time.Since(begun))
	}
	up()
	if again := c.verdict("runaway-1"); again != verdict {
		t.Errorf("after a restart the first verdict is\n%s\nbefore it was\n%s", again, verdict)
	}
	broker := "kfake"
	if os.Getenv("KAFKA_ADDR") != "" {
		broker = "Apache Kafka"
	}
	c.Saw("beside %s, without containers: topics created; weir healthy; a runaway and a flow stopped by hand, also after a restart", broker)
}

func compose(t *testing.T) *composed {
	t.Helper()
	c := &composed{Journey: weirtest.NewJourney(t, "J17 compose", "the services of the compose file run, stop a runaway, and obey the brake"), project: readProject(t), secrets: t.TempDir()}
	for name := range c.project.Secrets {
		token := make([]byte, 32)
		_, _ = rand.Read(token)
		if err := os.WriteFile(filepath.Join(c.secrets, name), []byte(base64.StdEncoding.EncodeToString(token)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := weirtest.Address(t)
	c.url = "http://" + address
	c.here = strings.NewReplacer("kafka:19092", weirtest.Broker(t), "/run/secrets", c.secrets, ".secrets", c.secrets, "/var/lib/weir", t.TempDir(), "0.0.0.0:8080", address, "0.0.0.0:9464", weirtest.Address(t))
	for name, value := range c.project.Services["weir"].Environment {
		c.env = append(c.env, name+"="+c.here.Replace(*value))
	}
	c.env = append(c.env, "WEIR_SERVER="+c.url)
	return c
}

func (c *composed) args(command []string) (args []string) {
	for _, arg := range command {
		args = append(args, c.here.Replace(arg))
	}
	return args
}

// healthy runs the health check as often as Compose does, and fails if it never passes.
func (c *composed) healthy(service types.ServiceConfig) {
	c.Helper()
	check := service.HealthCheck
	var errs string
	for range *check.Retries + 1 {
		var code int
		if code, _, errs = weirtest.Command(c, weirtest.Options{Env: c.env}, c.args(check.Test[2:])...); code == 0 {
			return
		}
		<-time.After(time.Duration(*check.Interval))
	}
	c.Fatalf("the health check never passes: %s", errs)
}

func (c *composed) token(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.secrets, name))
	if err != nil {
		c.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (c *composed) request(method, path, token, body string) *http.Response {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token(token))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	return resp
}

func (c *composed) post(token, body string) (status int, answer string) {
	c.Helper()
	return c.to("/v1/events", token, body)
}

func (c *composed) to(path, token, body string) (status int, answer string) {
	c.Helper()
	resp := c.request("POST", path, token, body)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func call(flow string, n int, at time.Time) string {
	from, to := "planner", "coder"
	if n%2 == 1 {
		from, to = to, from
	}
	return fmt.Sprintf(`{"id":"%s-%d","time":%q,"kind":"agent.call","correlation_id":%q,"from":{"agent":%q},"to":{"agent":%q},"had_work":false,"content_hash":"xxh64:0123456789abcdef"}`+"\n",
		flow, n, at.UTC().Format(time.RFC3339Nano), flow, from, to)
}

// runaway is two agents that hand the same to each other.
func (c *composed) runaway(flow string) {
	c.Helper()
	var body strings.Builder
	begun := time.Now().Add(-20 * time.Second)
	for n := range 20 {
		body.WriteString(call(flow, n, begun.Add(time.Duration(n)*time.Second)))
	}
	if status, answer := c.post("intake_token", body.String()); status != http.StatusAccepted {
		c.Fatalf("the runaway: %d %s", status, answer)
	}
}

// verdict waits for the first verdict on a flow that refuses calls.
func (c *composed) verdict(flow string) string {
	c.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(50 * time.Millisecond) {
		resp := c.request("GET", "/v1/verdicts?flow="+flow, "intake_token", "")
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), `"action":"deny"`) {
				_ = resp.Body.Close()
				return lines.Text()
			}
		}
		_ = resp.Body.Close()
	}
	c.Fatalf("no verdict on %s within a minute", flow)
	return ""
}

// byHand stops an honest flow by the command at the head of docker-compose.yml.
func (c *composed) byHand(flow string) {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		c.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^# +weir (flows stop FLOW .*)$`).FindStringSubmatch(string(text))
	if command == nil {
		c.Fatal("docker-compose.yml has no command that stops a flow")
	}
	if status, answer := c.post("intake_token", call(flow, 0, time.Now())); status != http.StatusAccepted {
		c.Fatalf("%d %s", status, answer)
	}
	args := strings.Fields(strings.NewReplacer("FLOW", flow, "WHY", "tried", ".secrets", c.secrets).Replace(command[1]))
	if code, _, errs := weirtest.Command(c, weirtest.Options{Env: []string{"WEIR_SERVER=" + c.url}}, args...); code != 0 {
		c.Fatalf("weir %q exits with %d: %s", args, code, errs)
	}
	for n, begun := 1, time.Now(); ; n++ {
		if _, answer := c.to("/v1/check", "intake_token", call(flow, n, time.Now())); strings.Contains(answer, `"operator_stop"`) {
			return
		} else if time.Since(begun) > time.Minute {
			c.Fatalf("a stopped flow is allowed: %s", answer)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// scraped reads the metrics where Prometheus reads them.
func (c *composed) scraped() {
	c.Helper()
	resp, err := http.Get("http://" + c.here.Replace("0.0.0.0:9464") + "/metrics")
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !regexp.MustCompile(`(?m)^weir_verdicts_total\{.*action="deny".*\} [1-9]`).Match(text) {
		c.Errorf("the metrics count no verdict: %v", err)
	}
}
