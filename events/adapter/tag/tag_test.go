package tag

import (
	"slices"
	"strings"
	"testing"

	"weir/events"
)

// TestRead holds what of a value is a tag.
func TestRead(t *testing.T) {
	long := strings.Repeat("x", events.MaxTag+1)
	for value, want := range map[string][]string{
		``:                                  nil,
		`nightly`:                           {"nightly"},
		`nightly, Team A,`:                  {"nightly", "Team A"},
		`["nightly","Team A","nightly"]`:    {"nightly", "Team A"},
		`"[\"nightly\"]"`:                   {"nightly"},
		`["` + long + `","short"]`:          {"short"},
		`["seq:step:1","graph:step:2","a"]`: {"seq:step:1", "graph:step:2", "a"},
	} {
		if got := Read([]byte(value)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
	if got := OfRun([]byte(`["seq:step:1","a","langsmith:hidden","graph:step:2"]`)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("of a run: %q, want a alone", got)
	}
	many := strings.Repeat(",", 3*events.MaxTags)
	for i := range 2 * events.MaxTags {
		many += strings.Repeat("t", i%events.MaxTag+1) + ","
	}
	if got := Read([]byte(many)); len(got) != events.MaxTags {
		t.Errorf("%d tags are kept, want %d", len(got), events.MaxTags)
	}
}

// TestLabels checks which members of metadata are labels: those that a user chose.
func TestLabels(t *testing.T) {
	got := Labels([]byte(`{"env":"batch","n":3,"beta":true,"none":null,"list":["a"],"object":{"a":1},"thread_id":"t","id":"1",
		"ls_provider":"x","langgraph_node":"y","LANGSMITH_TRACING":"true","lc_agent_name":"z","":"w","empty":""}`))
	if want := []string{"env=batch", "n=3", "beta=true"}; !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
	for _, none := range []string{``, `null`, `"text"`, `[1]`} {
		if got := Labels([]byte(none)); got != nil {
			t.Errorf("%s: labels %q, want none", none, got)
		}
	}
}
