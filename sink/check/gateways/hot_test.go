//go:build linux

package gateways

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHotLimits plays the second scenario through each gateway with a limit of 10, and
// after an edit of the limits file with one of 5, which holds from the next call on.
func TestHotLimits(t *testing.T) {
	binary := build(t)
	for _, g := range all() {
		t.Run(strings.ReplaceAll(g.name, " ", "_"), func(t *testing.T) {
			c := through(t, g, binary, "profile: gateway\n")
			passes := func(session string, n int) {
				t.Helper()
				for i := range n {
					c.passes(session, fmt.Sprint(i/4), "search", fmt.Sprint(i))
				}
			}
			passes("ten", 10)
			c.refused("ten", "2", "search", "10", `{"reason_code":"max_tool_calls_exceeded","limit":10,"observed":11,"session":"ten","tool":"search"`)
			passes("under way", 5)
			before := c.weir.version(t)
			c.weir.limit(t, "profile: gateway\nrules: {max_tool_calls: {max: 5}}\n")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for c.weir.version(t) == before {
				if ctx.Err() != nil {
					t.Fatal("the limits stay as they were")
				}
				runtime.Gosched()
			}
			c.refused("under way", "2", "search", "5", `{"reason_code":"max_tool_calls_exceeded","limit":5,"observed":6,"session":"under way","tool":"search"`)
			passes("five", 5)
			c.refused("five", "2", "search", "5", `{"reason_code":"max_tool_calls_exceeded","limit":5,"observed":6,"session":"five","tool":"search"`)
			if n := c.hits.Load(); n != 20 {
				t.Errorf("the tools were called %d times, want 20", n)
			}
		})
	}
}

// version is that of the limits in force.
func (p *ports) version(t *testing.T) string {
	t.Helper()
	resp, err := http.Get("http://127.0.0.1:" + p.Weir + "/v1/limits")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var limits struct{ Version string }
	if err := json.NewDecoder(resp.Body).Decode(&limits); err != nil {
		t.Fatal(err)
	}
	return limits.Version
}
