package journeys

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestBudgets has one flow of a team spend its day's budget, and another wait for a grant.
func TestBudgets(t *testing.T) {
	j := follow(t, "J19 budgets", "cmd/weir/BUDGETS.md", "Budgets over flows", "a flow is refused for what another flow of its team has spent, until a grant")
	j.save("yaml", "limits.yaml")
	j.add("limits.yaml", "  zone: "+weirtest.Zone(time.Now())+"\n") // the page's day may end meanwhile
	j.serve()
	j.save("sh", "spend.sh")
	before, after, refused := strings.Cut(j.run(), `"status":402`)
	if !refused || strings.Count(before, `"allowed":true`) != 1 || strings.Count(after, `"allowed":true`) != 1 {
		t.Errorf("want one call allowed, one refused, and after the grant one allowed:\n%s\n402\n%s", before, after)
	}
	j.has(before, `"accepted":1`)
	j.has(after, `"reason_code":"budget_exhausted"`, "$50 of $50", "used_up")
	j.Saw("refused after $50 of $50, allowed after the grant")
	j.done()
}
