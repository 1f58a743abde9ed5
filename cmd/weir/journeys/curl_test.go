package journeys

import "testing"

func TestCurl(t *testing.T) {
	j := follow(t, "cmd/weir/TUTORIAL.md", "With curl only", "six equal calls run, the seventh is refused with the reason")
	j.serve()
	j.has(j.run(), "6 calls ran\n", `"status":403`, `"reason_code":"repetition_detected"`, "Do not repeat it")
	j.done()
}
