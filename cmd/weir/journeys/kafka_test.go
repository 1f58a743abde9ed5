package journeys

import (
	"os/exec"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// pageBroker is the broker that pages name.
const pageBroker = "127.0.0.1:9092"

func TestKafka(t *testing.T) {
	j := follow(t, "J14 Kafka", "cmd/weir/TUTORIAL.md", "On Kafka", "right keys: the flow is stopped; wrong keys or none: reported")
	if _, err := exec.LookPath("python3"); err != nil {
		j.NotTested("there is no python3")
	}
	j.instead(pageBroker, weirtest.Broker(t))
	j.has(j.run(), "created agent-events")
	j.serve()
	j.run()
	j.save("python", "produce.py")
	j.save("python", "consume.py")
	out := j.run()
	j.has(out, "kafka-1 deny a2a_ping_pong\n")
	j.Saw("%d verdicts read by the consumer", strings.Count(out, "kafka-1 deny"))
	out = j.run()
	j.Saw("weir doctor: %s", firstWith(out, "fail keys"))
	j.has(out, "fail keys", "the key of a record has to be its correlation_id", "weir doctor found a fault")
	j.done()
}

// firstWith returns the first line of a text that has a part.
func firstWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return "no line with " + part
}

// instead has another text take the place of one in the blocks that are left.
func (j *journey) instead(of, text string) {
	for i := range j.blocks {
		j.blocks[i].text = strings.ReplaceAll(j.blocks[i].text, of, text)
	}
}
