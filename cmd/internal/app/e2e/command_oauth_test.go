package e2e

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/events/kafka"
)

// segment is a part of a JSON Web Token.
func segment(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// claims are those of a token that is good for a minute.
func claims(audience string, life time.Duration) []byte {
	now := time.Now()
	text, _ := json.Marshal(map[string]any{"sub": "weir", "iss": "test", "aud": audience, "scope": "kafka", "iat": now.Unix(), "exp": now.Add(life).Unix()})
	return text
}

// provider gives tokens for the credentials of a client, as an OpenID Connect provider does.
type provider struct {
	*httptest.Server
	key   *rsa.PrivateKey
	life  time.Duration
	given atomic.Int64
}

func newProvider(t *testing.T, life time.Duration) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, life: life}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret) // as RFC 6749 has it
	w.Header().Set("Content-Type", "application/json")
	if r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" || id != "weir" || secret != "open sesame" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	p.given.Add(1)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, p.token("weir-test"), int(p.life.Seconds()))
}

// token is one that the provider has signed.
func (p *provider) token(audience string) string {
	text := segment([]byte(`{"alg":"RS256","typ":"JWT","kid":"k1"}`)) + "." + segment(claims(audience, p.life))
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + segment(signature)
}

// keys are the provider's keys as brokers read them.
func (p *provider) keys() []byte {
	text, _ := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1",
		"n": segment(p.key.N.Bytes()), "e": segment(big.NewInt(int64(p.key.E)).Bytes())}}})
	return text
}

// freePorts returns the first of so many free ports next to each other, below those that the system
// gives to connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 50 {
		offset, err := rand.Int(rand.Reader, big.NewInt(10_000))
		if err != nil {
			t.Fatal(err)
		}
		first, free := 20_000+int(offset.Int64()), true
		for i := range n {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i)))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no ports are free")
	return 0
}

// TestOAuthBearer logs in to an Apache Kafka that checks tokens: signed ones of a provider by TLS,
// with sessions that end after seconds, and ones without a signature.
func TestOAuthBearer(t *testing.T) {
	if os.Getenv("KAFKA_ADDR") == "" {
		t.Skip("it needs Apache Kafka; run: make brokers")
	}
	dir := t.TempDir()
	p := newProvider(t, 9*time.Second) // each login asks for a token, since one is not used in its last 10 s
	jwks, broker := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "broker")
	secret, wrong := filepath.Join(dir, "secret"), filepath.Join(dir, "wrong")
	for file, text := range map[string]string{jwks: string(p.keys()), secret: "open sesame\n", wrong: "open barley\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePorts(t, 4)
	kafkaScript(t, []string{"KAFKA_AUTH=yes", "KAFKA_JWKS=" + jwks, "KAFKA_REAUTH=4000"}, "start", broker, strconv.Itoa(port))
	t.Cleanup(func() { kafkaScript(t, nil, "stop", broker) })
	at := func(n int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+n)) }
	plain, signed, unsigned, n := newBroker(t, at(0)), newBroker(t, at(3)), newBroker(t, at(2)), newNames(t)
	login := []string{"--kafka-ca-file", filepath.Join(broker, "ca.pem"), "--kafka-sasl", "oauthbearer", "--kafka-token-url", p.URL, "--kafka-token-scope", "kafka", "--kafka-user", "weir"}
	good := append(login[:len(login):len(login)], "--kafka-password-file", secret)

	expects(t, 1, []string{"login refused", "401 Unauthorized: invalid_client"}, n.flags("topics plan", signed, append(login[:len(login):len(login)], "--kafka-password-file", wrong)...)...)
	expects(t, 0, []string{"created"}, n.flags("topics create --partitions 3 --replication 1", signed, good...)...)
	s := serve(t, n.flags("run --listen 127.0.0.1:0 --metrics= --self-test 0 --log-format json", signed, good...)...)
	s.Await("weir is running")
	log := filepath.Join(dir, "log.jsonl")
	if err := os.WriteFile(log, bytes.Join(recordedLines(t), []byte("\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	expects(t, 0, nil, n.flags("ingest", signed, append(good, log)...)...)
	plain.stopped(t, s, n.verdicts, "loop")
	expects(t, 0, []string{"would be stopped: 1"}, append([]string{"backtest", "--brokers", signed.Addr, "--events-topic", n.events}, good...)...)
	expects(t, 0, []string{"reached, and weir is let in"}, n.flags("doctor --state other", signed, good...)...)

	// Sessions end after 4 s; weir logs in again, and goes on.
	before := p.given.Load()
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); p.given.Load() < before+4 && patient.Err() == nil; <-tick.C {
	}
	if p.given.Load() < before+4 {
		t.Errorf("weir logs in %d times after its sessions have ended", p.given.Load()-before)
	}
	again := newNames(t)
	expects(t, 0, nil, n.flags("ingest", signed, append(good, renamed(t, log, "loop", again.group))...)...)
	plain.stopped(t, s, n.verdicts, again.group)
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}

	// Tokens in a file, for guards as for commands.
	token := filepath.Join(dir, "token")
	write := func(text string) {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(segment([]byte(`{"alg":"none"}`)) + "." + segment(claims("anything", time.Minute)) + ".")
	byFile := []string{"--kafka-sasl", "oauthbearer", "--kafka-token-file", token}
	expects(t, 0, nil, n.flags("topics plan", unsigned, byFile...)...)
	var c kafka.Cluster
	c.Brokers = []string{unsigned.Addr}
	if err := c.Secure(kafka.Security{Mechanism: "oauthbearer", OAuth: kafka.OAuth{TokenFile: token}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("a cluster as guards use it: %v", err)
	}
	c.Close()
	write(segment([]byte(`{"alg":"none"}`)) + "." + segment(claims("anything", -time.Hour)) + ".")
	expects(t, 1, []string{"login refused"}, n.flags("topics plan", unsigned, byFile...)...)
	for _, refused := range []string{newProvider(t, time.Minute).token("weir-test"), p.token("another-audience")} { // the first is signed by another key
		write(refused)
		expects(t, 1, []string{"login refused"}, n.flags("topics plan", signed, append(byFile, "--kafka-ca-file", filepath.Join(broker, "ca.pem"))...)...)
	}
	t.Logf("the provider gave %d tokens", p.given.Load())
}

// kafkaScript runs kafka.sh. Its output goes to a file, because the broker outlives it.
func kafkaScript(t *testing.T, env []string, args ...string) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "script")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("./kafka.sh", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("kafka.sh %v: %v\n%s", args, err, text)
	}
}

// recordedLines are the events of a loop.
func recordedLines(t *testing.T) (lines [][]byte) {
	t.Helper()
	for _, m := range recordedMessages(t) {
		lines = append(lines, m.Value)
	}
	return lines
}

// renamed writes the log again with another name of its flow, and returns the file.
func renamed(t *testing.T, log, old, name string) string {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	file := log + "." + name
	out := strings.ReplaceAll(strings.ReplaceAll(string(text), `"correlation_id":"`+old+`"`, `"correlation_id":"`+name+`"`), `"id":"`, `"id":"`+name)
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
