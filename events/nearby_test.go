package events

import (
	"fmt"
	"testing"
)

// TestMisnamed finds slips of the pen, and takes no name of somebody's own for one.
func TestMisnamed(t *testing.T) {
	f := func(record, want string) {
		t.Helper()
		if got := fmt.Sprint(Misnamed([]byte(record))); got != want {
			t.Errorf("%s: %s, want %s", record, got, want)
		}
	}
	f(`{"form":{"agent":"a"},"kind":"agent.call"}`, "[{form from}]")
	f(`{"fro":{"agent":"a"},"tols":1}`, "[{fro from}]")
	f(`{"from":{"agnet":"a"},"tool":{"nam":"x"}}`, "[{from.agnet from.agent} {tool.nam tool.name}]")
	f(`{"from":{},"form":1}`, "[]") // the known one is there
	f(`{"my_field":1,"note_id":"x","x":1}`, "[]")
	f(`{"team":"payments","project":"p","tool":{"call":"1"},"task_id":"t"}`, "[{project project_id} {team team_id} {tool.call tool.call_id}]")
	f(`{"team":"payments","team_id":"p"}`, "[]")
	f(`{"cost_usd":1,"args_hash":"x","tool":{"name":"t"},"usage":{"prompt_tokens":1,"imput_tokens":1}}`, "[{args_hash tool.args_hash} {cost_usd usage.cost_usd} {usage.imput_tokens usage.input_tokens}]")
	f(`{"cost_usd":1,"usage":{"cost_usd":1}}`, "[]")
	f(`{"flow":"x","timestamp":"y","caller":{"agent":"a"},"type":"t","scope":"s"}`, "[{caller from} {flow correlation_id} {timestamp time}]")
	f(`[1]`, "[]")
}
