package weirtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Broker returns the address of a Kafka broker without topics: that of KAFKA_ADDR if it is set, else a kfake in a
// process of its own.
func Broker(t testing.TB) string {
	t.Helper()
	if address := os.Getenv("KAFKA_ADDR"); address != "" {
		return address
	}
	binary := filepath.Join(Root(), "bin", "test", "trial")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", binary, "./trial")
	build.Dir = filepath.Join(Root(), "cmd", "internal", "app", "e2e")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the broker: %v\n%s", err, out)
	}
	port, err := Ports(3) // it has a second listener, two ports on
	if err != nil {
		t.Fatal(err)
	}
	Start(t, Options{Binary: binary}, "broker", strconv.Itoa(port), t.TempDir())
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for begun := time.Now(); ; <-time.After(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the broker does not serve: %v", err)
		}
	}
}
