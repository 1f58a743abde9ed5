package journeys

import (
	"os/exec"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// TestApprovals has flows wait for a person after $0.10, who approves by webhook and by command line, and
// denies.
func TestApprovals(t *testing.T) {
	j := follow(t, "J20 approvals", "cmd/weir/OPERATIONS.md", "Try approvals", "a flow that has spent $0.10 waits; a person approves by webhook or command, or denies")
	port := weirtest.Port(t)
	for i := range j.blocks {
		j.blocks[i].text = strings.ReplaceAll(j.blocks[i].text, "9000", port)
	}
	j.save("yaml", "limits.yaml")
	j.save("yaml", "switch.yaml")
	j.save("python", "inbox.py")
	j.has(j.run(), "switch.yaml is valid: 1 drill, 1 runtime, 2 tiers of approvals")
	j.background()
	j.serve()
	j.save("sh", "job.sh")
	j.save("sh", "approve.sh")
	out := j.run()
	j.has(out, "200\n402\n", "flow job-1", "tier 1 asked", "Flow job-1: $0.1 more for the flow, for 1h", "approved by link/ops/ann")
	if _, after, ok := strings.Cut(out, "approved by"); !ok || !strings.Contains(after, "\n200\n") {
		t.Errorf("no call is allowed after the approval:\n%s", out)
	}
	out = j.run()
	j.has(out, "flow job-2", "job-2 has more of max_cost_usd", "job-3  stopped")
	j.Saw("held at $0.12 of $0.10, approved by webhook and by command, denied")
	j.done()
}

// background runs the next block, a program that goes on until the test ends.
func (j *journey) background() {
	j.Helper()
	cmd := exec.Command("/bin/bash", "-c", "exec "+j.next("sh").text)
	cmd.Dir, cmd.Env = j.dir, j.env
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}
