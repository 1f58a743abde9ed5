package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

const password = "weir-secret"

// ports are the ways into one broker, as kafka.sh opens them with KAFKA_AUTH=yes.
type ports struct {
	plain, login, secure, secureLogin string // addresses; empty: there is none
	authority                         string // file
}

// openPorts gives a test all ways in: of a kfake each, or of the real broker whose
// folder is KAFKA_DIR.
func openPorts(t *testing.T) ports {
	if addr, dir := os.Getenv("KAFKA_ADDR"), os.Getenv("KAFKA_DIR"); addr != "" && dir != "" {
		p := ports{plain: addr, authority: filepath.Join(dir, "ca.pem")}
		if _, err := os.Stat(p.authority); err != nil {
			t.Skipf("the broker of %s has no login and no TLS: start a new one with KAFKA_AUTH=yes", dir)
		}
		host, port, _ := net.SplitHostPort(addr)
		var n int
		fmt.Sscan(port, &n)
		p.login = net.JoinHostPort(host, fmt.Sprint(n+2))
		p.secureLogin = net.JoinHostPort(host, fmt.Sprint(n+3))
		return p
	}
	certificate, authority := certify(t)
	server := &tls.Config{Certificates: []tls.Certificate{certificate}}
	login := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", password), kfake.Superuser("SCRAM-SHA-256", "weir", password), kfake.Superuser("SCRAM-SHA-512", "weir", password)}
	return ports{
		plain:       startFake(t).Addr,
		login:       startFake(t, login...).Addr,
		secure:      startFake(t, kfake.TLS(server.Clone())).Addr,
		secureLogin: startFake(t, append(login, kfake.TLS(server.Clone()))...).Addr,
		authority:   authority,
	}
}

// certify makes a certificate for 127.0.0.1 that signs itself, and the file that trusts it.
func certify(t *testing.T) (tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		keep(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// keep writes a file for the time of the test.
func keep(t *testing.T, name, text string) (path string) {
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClusterSecurity comes to each port as it wants, and in all wrong ways.
func TestClusterSecurity(t *testing.T) {
	t.Parallel()
	p := openPorts(t)
	right, wrong := keep(t, "password", password+"\n"), keep(t, "password", "wrong\n")
	_, stranger := certify(t)
	f := func(addr string, s kafka.Security, want error, texts ...string) {
		t.Helper()
		if addr == "" {
			return
		}
		c := &kafka.Cluster{Brokers: []string{addr}, DialTimeout: 2 * time.Second}
		defer c.Close()
		if err := c.Secure(s); err != nil {
			t.Fatal(err)
		}
		check := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %+v: %v, want %v", what, s, err, want)
				return
			}
			if err == nil {
				return
			}
			if final := want != kafka.ErrUnreachable; kafka.Final(err) != final {
				t.Errorf("%s: %+v: final is %v: %v", what, s, !final, err)
			}
			for _, text := range append(texts, addr) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %+v: %v does not say %q", what, s, err, text)
				}
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "wrong\n") {
				t.Errorf("%v tells the password", err)
			}
		}
		check("check", c.Check(t.Context()))
		topic := unique(t)
		_, err := c.CreateTopics(t.Context(), kafka.NewTopic{Name: topic, Partitions: 2, Replication: 1})
		check("create", err)
		_, err = c.Topic(t.Context(), topic)
		check("topic", err)
		_, _, err = c.Bounds(t.Context(), topic, 1)
		check("bounds", err)
		if want == nil {
			p, err := sinkkafka.Open(t.Context(), c, topic, topic, 1)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, p, "v")
			r := kafka.NewReader(c, topic, 1, p.MarkOffset()+1, kafka.ReaderOptions{})
			if got, err := read(t, r, 1); err != nil || string(got[0].Value) != "v" {
				t.Error(err)
			}
			r.Close()
		}
		g, err := kafka.NewGroup(kafka.GroupOptions{Cluster: c, Group: topic, Topic: topic, JoinBackoff: time.Millisecond, Heartbeat: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if want == kafka.ErrUnreachable {
			return // goes on for ever
		}
		check("group", g.Run(ctx, func(ctx context.Context, a kafka.Assignment) {
			cancel()
			<-ctx.Done()
		}))
	}
	// A broker since Kafka 1.0 says that it refuses a login; kfake only hangs up.
	refused, says := kafka.ErrUnreachable, "the user or the password is wrong"
	if p.secure == "" {
		refused, says = kafka.ErrLogin, "wrong user or password"
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		f(p.login, kafka.Security{Mechanism: mechanism, User: "weir", PasswordFile: right}, nil)
		f(p.login, kafka.Security{Mechanism: mechanism, User: "weir", PasswordFile: wrong}, refused, says)
		f(p.login, kafka.Security{Mechanism: mechanism, User: "nobody", PasswordFile: right}, refused, says)
		f(p.secureLogin, kafka.Security{CAFile: p.authority, Mechanism: mechanism, User: "weir", PasswordFile: right}, nil)
		f(p.secureLogin, kafka.Security{CAFile: p.authority, Mechanism: mechanism, User: "weir", PasswordFile: wrong}, refused, says)
		f(p.plain, kafka.Security{Mechanism: mechanism, User: "weir", PasswordFile: right}, refused, "takes no login")
	}
	f(p.plain, kafka.Security{}, nil)
	f(p.secure, kafka.Security{CAFile: p.authority}, nil)
	f(p.login, kafka.Security{}, kafka.ErrUnreachable, "wants TLS or a login")
	f(p.plain, kafka.Security{TLS: true}, kafka.ErrUnreachable, "does not talk TLS")
	f(p.secure, kafka.Security{TLS: true}, kafka.ErrTLS, "authority")
	f(p.secureLogin, kafka.Security{TLS: true}, kafka.ErrTLS, "authority")
	f(p.secureLogin, kafka.Security{CAFile: stranger}, kafka.ErrTLS, "authority")
	f(p.secureLogin, kafka.Security{CAFile: p.authority}, kafka.ErrUnreachable, "wants a login")
	if p.secure != "" {
		f(p.secure, kafka.Security{}, kafka.ErrUnreachable, "wants TLS")
	} else {
		f(p.secureLogin, kafka.Security{}, kafka.ErrTLS, "talks TLS") // this broker says so by an alert
	}
}

// TestClusterUnreachable holds that nobody waits for ever, and all say where.
func TestClusterUnreachable(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes what comes and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	f := func(addr, want string, s kafka.Security) {
		t.Helper()
		c := &kafka.Cluster{Brokers: []string{addr}, DialTimeout: 100 * time.Millisecond}
		defer c.Close()
		if err := c.Secure(s); err != nil {
			t.Fatal(err)
		}
		check := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, kafka.ErrUnreachable) || kafka.Final(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), addr) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
		check("check", c.Check(t.Context()))
		_, err := c.Topic(t.Context(), "x")
		check("topic", err)
		_, err = c.CreateTopics(t.Context(), kafka.NewTopic{Name: "x", Partitions: 1})
		check("create", err)
		_, _, err = c.Bounds(t.Context(), "x", 0)
		check("bounds", err)
		_, err = c.OffsetAt(t.Context(), "x", 0, time.Now())
		check("offset", err)
		g, err := kafka.NewGroup(kafka.GroupOptions{Cluster: c, Group: "g", Topic: "x"})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = g.Members(t.Context())
		check("members", err)
		_, err = g.Committed(t.Context())
		check("committed", err)
		r := kafka.NewReader(c, "x", 0, 0, kafka.ReaderOptions{Wait: time.Millisecond})
		if got, err := r.Fetch(t.Context(), nil); err != nil || len(got) != 0 {
			t.Errorf("%d records, %v", len(got), err)
		}
		_, err = r.Trouble()
		check("reader", err)
	}
	login := kafka.Security{Mechanism: "plain", User: "weir", PasswordFile: keep(t, "password", password)}
	f(gone.Addr().String(), "refused", kafka.Security{})
	f(mute.Addr().String(), "in time", kafka.Security{})
	f(mute.Addr().String(), "in time", kafka.Security{TLS: true})
	f(mute.Addr().String(), "in time", login)
	f("no-such-host.invalid:9092", "resolved", kafka.Security{})

	// One of several is enough, and it does not matter which.
	b := startBroker(t)
	c := &kafka.Cluster{Brokers: []string{gone.Addr().String(), mute.Addr().String(), b.Addr}, DialTimeout: time.Second}
	defer c.Close()
	topic := b.topic(t, 1)
	for range 3 {
		if _, err := c.Partitions(t.Context(), topic); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"localhost", "localhost:kafka", ""} {
		if err := (&kafka.Cluster{Brokers: []string{bad}}).Check(t.Context()); err == nil {
			t.Errorf("broker %q is accepted", bad)
		}
	}
}

// TestClusterLeaderElsewhere finds a leader under an address that is not to be reached.
func TestClusterLeaderElsewhere(t *testing.T) {
	b := startFake(t)
	topic := b.topic(t, 1)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	b.Fake.ControlKey(3, func(q kmsg.Request) (kmsg.Response, error, bool) {
		b.Fake.KeepControl()
		a := q.ResponseKind().(*kmsg.MetadataResponse)
		node := kmsg.NewMetadataResponseBroker()
		node.Host, node.Port = "127.0.0.1", int32(gone.Addr().(*net.TCPAddr).Port)
		p := kmsg.NewMetadataResponseTopicPartition()
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.Partitions = kmsg.StringPtr(topic), append(mt.Partitions, p)
		a.Brokers, a.Topics = append(a.Brokers, node), append(a.Topics, mt)
		return a, nil, true
	})
	_, _, err = b.cluster(t).Bounds(t.Context(), topic, 0)
	if !errors.Is(err, kafka.ErrUnreachable) || !strings.Contains(err.Error(), "advertised.listeners") {
		t.Error(err)
	}
}

// TestClusterTopics creates topics and looks at them.
func TestClusterTopics(t *testing.T) {
	b := startBroker(t)
	c := b.cluster(t)
	there, first, second := b.topic(t, 1), unique(t), unique(t)
	created, err := c.CreateTopics(t.Context(), kafka.NewTopic{Name: first, Partitions: 3, Replication: 1, Config: map[string]string{"retention.ms": "3600000", "cleanup.policy": "delete"}},
		kafka.NewTopic{Name: there, Partitions: 7, Replication: 1}, kafka.NewTopic{Name: second, Partitions: 1})
	if err != nil || len(created) != 2 || created[0] != first || created[1] != second {
		t.Fatal(created, err)
	}
	info, err := c.Topic(t.Context(), first)
	if err != nil || info.Name != first || info.Partitions != 3 || info.Replication != 1 || info.Config["retention.ms"] != "3600000" || info.Config["max.message.bytes"] == "" {
		t.Errorf("%+v, %v", info, err)
	}
	if n, err := c.Partitions(t.Context(), there); err != nil || n != 1 {
		t.Errorf("%d partitions, %v", n, err)
	}
	_, err = c.CreateTopics(t.Context(), kafka.NewTopic{Name: unique(t), Partitions: 1, Replication: 99})
	if err == nil || !strings.Contains(err.Error(), "create topic") {
		t.Error(err)
	}
	for what, f := range map[string]func() error{
		"topic":      func() error { _, err := c.Topic(t.Context(), unique(t)); return err },
		"partitions": func() error { _, err := c.Partitions(t.Context(), unique(t)); return err },
		"bounds":     func() error { _, _, err := c.Bounds(t.Context(), unique(t), 0); return err },
	} {
		if err := f(); !errors.Is(err, kafka.ErrNoTopic) || !strings.Contains(err.Error(), "create it") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := c.Bounds(t.Context(), first, 3); err == nil || !strings.Contains(err.Error(), "3 partitions") {
		t.Error(err)
	}
}

// TestClusterOptionalSettings creates topics with settings that brokers take, and with some
// that they refuse.
func TestClusterOptionalSettings(t *testing.T) {
	b := startBroker(t)
	// kfake takes whatever it is told, so it is told what to refuse as services do.
	if b.Fake != nil {
		b.Fake.ControlKey(int16(kmsg.CreateTopics), func(q kmsg.Request) (kmsg.Response, error, bool) {
			b.Fake.KeepControl()
			a := q.ResponseKind().(*kmsg.CreateTopicsResponse)
			refused := false
			for _, asked := range q.(*kmsg.CreateTopicsRequest).Topics {
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic = asked.Topic
				for _, c := range asked.Configs {
					if c.Name == "segment.bytes" {
						topic.ErrorCode, refused = kerr.PolicyViolation.Code, true
					}
				}
				a.Topics = append(a.Topics, topic)
			}
			return a, nil, refused
		})
	}
	c := b.cluster(t)
	kept := map[string]string{"retention.ms": "3600000"}
	for _, optional := range []map[string]string{{"segment.index.bytes": "524288"}, {"segment.bytes": "none"}} {
		name := unique(t)
		created, err := c.CreateTopics(t.Context(), kafka.NewTopic{Name: name, Partitions: 2, Replication: 1, Config: kept, Optional: optional})
		if err != nil || len(created) != 1 || created[0] != name {
			t.Fatalf("%v: created %v, %v", optional, created, err)
		}
		info, err := c.Topic(t.Context(), name)
		if err != nil || info.Partitions != 2 || info.Config["retention.ms"] != kept["retention.ms"] {
			t.Errorf("%v: %+v, %v", optional, info, err)
		}
		if want := optional["segment.index.bytes"]; b.Fake == nil && want != "" && info.Config["segment.index.bytes"] != want {
			t.Errorf("segment.index.bytes is %q, want %s", info.Config["segment.index.bytes"], want)
		}
	}
	// What weir needs is not left out.
	if created, err := c.CreateTopics(t.Context(), kafka.NewTopic{Name: unique(t), Partitions: 1, Replication: 1, Config: map[string]string{"segment.bytes": "none"}}); err == nil {
		t.Errorf("created %v", created)
	}
}

// accepted counts connections that a broker has accepted.
type accepted struct {
	net.Listener
	n *atomic.Int32
}

func (a accepted) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	a.n.Add(1)
	return c, err
}

// TestClusterAsksAgain holds that questions that follow each other need one connection and one look for
// leaders, and that both may be out of date by the next.
func TestClusterAsksAgain(t *testing.T) {
	var n atomic.Int32
	dir := t.TempDir()
	b := startFake(t, kfake.DataDir(dir), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return accepted{l, &n}, err
	}))
	topic := b.topic(t, 3)
	c := b.cluster(t)
	ask := func() {
		t.Helper()
		for p := range 3 {
			_, end, err := c.Bounds(t.Context(), topic, p)
			if err != nil || end != 0 {
				t.Fatalf("partition %d ends at %d, %v", p, end, err)
			}
			if at, err := c.OffsetAt(t.Context(), topic, p, time.Now()); err != nil || at != 0 {
				t.Fatalf("partition %d: %d, %v", p, at, err)
			}
		}
	}
	var looks atomic.Int32
	b.Fake.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Fake.KeepControl()
		looks.Add(1)
		return nil, nil, false
	})
	before := n.Load()
	ask()
	if got := n.Load() - before; got != 1 || looks.Load() != 1 {
		t.Errorf("%d connections and %d looks for leaders for questions one after the other, want 1", got, looks.Load())
	}
	b.Fake.Close()
	restart(t, b, dir)
	ask()
	c.Close()
	ask()

	b = startFake(t, kfake.NumBrokers(3))
	topic, c = b.topic(t, 3), b.cluster(t)
	for node := range int32(3) {
		ask()
		for p := range int32(3) {
			if err := b.Fake.MoveTopicPartition(topic, p, node); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask()
}

// TestClusterOffsets looks for ends and times.
func TestClusterOffsets(t *testing.T) {
	b := startBroker(t)
	c, topic := b.cluster(t), b.topic(t, 1)
	f := func(at int64, want int64) {
		t.Helper()
		if got, err := c.OffsetAt(t.Context(), topic, 0, time.UnixMilli(at)); err != nil || got != want {
			t.Errorf("offset at %d is %d, want %d: %v", at, got, want, err)
		}
	}
	const start = 1_700_000_000_000
	f(start, 0)
	producer := b.franz(t)
	for i := range int64(10) {
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(start + 1000*i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	f(-5, 0)
	f(start-1, 0)
	f(start, 0)
	f(start+1, 1)
	f(start+9000, 9)
	f(start+9001, 10)
	first, end, err := c.Bounds(t.Context(), topic, 0)
	if first != 0 || end != 10 || err != nil {
		t.Errorf("from %d to %d, %v", first, end, err)
	}
}

// TestClusterACL holds that what is not permitted is named, and is final.
func TestClusterACL(t *testing.T) {
	b := startFake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "weir", password), kfake.Superuser("PLAIN", "admin", password))
	c := b.cluster(t)
	if err := c.Secure(kafka.Security{Mechanism: "plain", User: "weir", PasswordFile: keep(t, "password", password)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopics(t.Context(), kafka.NewTopic{Name: unique(t), Partitions: 1, Replication: 1}); !errors.Is(err, kafka.ErrDenied) || !kafka.Final(err) {
		t.Error(err)
	}
	if _, err := c.Topic(t.Context(), unique(t)); !errors.Is(err, kafka.ErrDenied) && !errors.Is(err, kafka.ErrNoTopic) {
		t.Error(err)
	}
}
