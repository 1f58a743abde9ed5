package journeys

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// pageBroker is the broker that pages name.
const pageBroker = "127.0.0.1:9092"

func TestKafka(t *testing.T) {
	j := follow(t, "cmd/weir/TUTORIAL.md", "On Kafka", "with the right keys a flow is stopped, and weir doctor reports wrong keys and none")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("*** NOT TESTED: the journey on Kafka, because there is no python3 ***")
	}
	j.instead(pageBroker, startBroker(t))
	j.has(j.run(), "created agent-events")
	j.serve()
	j.run()
	j.save("python", "produce.py")
	j.save("python", "consume.py")
	j.has(j.run(), "kafka-1 deny a2a_ping_pong\n")
	j.has(j.run(), "fail keys", "the key of a record has to be its correlation_id", "weir doctor found a fault")
	j.done()
}

// instead has another text take the place of one in the blocks that are left.
func (j *journey) instead(of, text string) {
	for i := range j.blocks {
		j.blocks[i].text = strings.ReplaceAll(j.blocks[i].text, of, text)
	}
}

// startBroker starts kfake as a process, and returns its address when it serves.
func startBroker(t *testing.T) string {
	t.Helper()
	folder, err := weirtest.Build()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(folder, "trial")
	build := exec.Command("go", "build", "-o", binary, "./trial")
	build.Dir = filepath.Join(weirtest.Root(), "cmd", "internal", "app", "e2e")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the broker: %v\n%s", err, out)
	}
	port, err := weirtest.Ports(3) // it has a second listener, two ports on
	if err != nil {
		t.Fatal(err)
	}
	weirtest.Start(t, weirtest.Options{Binary: binary}, "broker", strconv.Itoa(port), t.TempDir())
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
