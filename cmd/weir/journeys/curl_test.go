package journeys

import (
	"strings"
	"testing"
)

func TestCurl(t *testing.T) {
	j := follow(t, "J13 curl", "cmd/weir/TUTORIAL.md", "With curl only", "6 equal calls run; the seventh is refused, with the reason")
	j.serve()
	j.save("sh", "loop.sh")
	out := j.run()
	j.Saw("%s", strings.SplitN(out, "\n", 2)[0])
	j.has(out, "6 calls ran\n", `"status":403`, `"reason_code":"repetition_detected"`, "Do not repeat it")
	j.done()
}
