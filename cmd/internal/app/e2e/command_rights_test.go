package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestLeastRights gives a user no more than the table of weir doctor says, and has the commands
// work by it: on an Apache Kafka with ACLs.
func TestLeastRights(t *testing.T) {
	if os.Getenv("KAFKA_ADDR") == "" {
		t.Skip("it needs Apache Kafka; run: make brokers")
	}
	dir := t.TempDir()
	broker, secret := filepath.Join(dir, "broker"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("weir-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePorts(t, 4)
	kafkaScript(t, []string{"KAFKA_AUTH=yes", "KAFKA_ACLS=yes"}, "start", broker, strconv.Itoa(port))
	t.Cleanup(func() { kafkaScript(t, nil, "stop", broker) })
	at := func(n int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+n)) }
	anybody, user, n := newBroker(t, at(0)), newBroker(t, at(2)), newNames(t)
	login := []string{"--kafka-sasl", "plain", "--kafka-user", "weir", "--kafka-password-file", secret}
	n.create(t, anybody, 3)

	expects(t, 3, []string{"weir doctor --rights lists the least rights"}, n.flags("doctor --state other", user, login...)...)
	n.allow(t, anybody, "run", "ingest", "replay, backtest", "doctor, topics plan")
	expects(t, 0, []string{"reached, and weir is let in"}, n.flags("doctor --state other", user, login...)...)
	s := serve(t, n.flags("run --listen 127.0.0.1:0 --metrics= --self-test 0 --log-format json", user, login...)...)
	s.Await("weir is running")
	log := filepath.Join(dir, "log.jsonl")
	if err := os.WriteFile(log, bytes.Join(recordedLines(t), []byte("\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	expects(t, 0, nil, n.flags("ingest", user, append(login, log)...)...)
	anybody.stopped(t, s, n.verdicts, "loop")
	expects(t, 0, []string{"would be stopped: 1"}, append([]string{"backtest", "--brokers", user.Addr, "--events-topic", n.events}, login...)...)
	if code := s.End(syscall.SIGTERM); code != 0 || strings.Contains(s.Log(), "AUTHORIZATION") {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}

	// What it may not: to create topics takes another right.
	other := newNames(t)
	expects(t, 1, []string{"not permitted"}, other.flags("topics create --replication 1", user, login...)...)
	n.allow(t, anybody, "topics create")
	other.allow(t, anybody, "run", "doctor, topics plan", "topics create")
	expects(t, 0, []string{"created"}, other.flags("topics create --replication 1", user, login...)...)
}

// allow gives the user weir what the table says of some commands, for these topics and this group.
func (n names) allow(t *testing.T, b *broker, commands ...string) {
	t.Helper()
	var table []struct {
		Command, Resource, Name string
		Operations              []string
	}
	out := expects(t, 0, nil, n.flags("doctor --rights -o json", b)...)
	for line := range strings.Lines(out) {
		var one struct {
			Command, Resource, Name string
			Operations              []string
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		table = append(table, one)
	}
	topics := []string{n.events, n.verdicts, n.activity, n.deadLetters, "agent-orders"}
	kinds := map[string]kafkago.ResourceType{"topic": kafkago.ResourceTypeTopic, "group": kafkago.ResourceTypeGroup, "transactional-id": kafkago.ResourceTypeTransactionalID, "cluster": kafkago.ResourceTypeCluster}
	operations := map[string]kafkago.ACLOperationType{"READ": kafkago.ACLOperationTypeRead, "WRITE": kafkago.ACLOperationTypeWrite, "DESCRIBE": kafkago.ACLOperationTypeDescribe, "CREATE": kafkago.ACLOperationTypeCreate,
		"ALTER": kafkago.ACLOperationTypeAlter, "ALTER_CONFIGS": kafkago.ACLOperationTypeAlterConfigs, "DESCRIBE_CONFIGS": kafkago.ACLOperationTypeDescribeConfigs}
	var entries []kafkago.ACLEntry
	for _, r := range table {
		for _, c := range commands {
			resources := []string{r.Name}
			if r.Name == "each of these" {
				resources = topics
			}
			for _, name := range resources {
				for _, op := range r.Operations {
					pattern := kafkago.PatternTypeLiteral
					if prefix, ok := strings.CutSuffix(name, "*"); ok {
						name, pattern = prefix, kafkago.PatternTypePrefixed
					}
					if r.Command == c && name != "the raw topic" {
						entries = append(entries, kafkago.ACLEntry{ResourceType: kinds[r.Resource], ResourceName: name, ResourcePatternType: pattern, Principal: "User:weir", Host: "*",
							Operation: operations[op], PermissionType: kafkago.ACLPermissionTypeAllow})
					}
				}
			}
		}
	}
	made, err := b.client().CreateACLs(t.Context(), &kafkago.CreateACLsRequest{ACLs: entries})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range made.Errors {
		if err != nil {
			t.Fatal(err)
		}
	}
}
