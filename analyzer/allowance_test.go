package analyzer_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TestAllowancesAreNamedByFlowAndCheck holds that the id of an allowance is a hash of flow and check,
// also beyond the length that is hashed without an allocation.
func TestAllowancesAreNamedByFlowAndCheck(t *testing.T) {
	engine := analyzer.New(limitfile.Default())
	for _, long := range []int{1, 127, 128, 129, 256} {
		var partition analyzer.Partition
		var flow analyzer.Flow
		var fx analyzer.Effects
		name, id := strings.Repeat("f", long), strings.Repeat("i", long)
		ev := events.Event{ID: id, Source: "s", Time: 1_763_800_000_000, Appended: 1_763_800_000_000, Kind: events.AgentCall, CorrelationID: name, CorrelationSource: events.CorrelationExplicit,
			From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}, Ask: true}
		engine.Step(&partition, &flow, &ev, &fx)
		v := fx.Answer
		if v == nil || v.Action != events.Allow {
			t.Fatalf("%d bytes: the answer is %+v", long, v)
		}
		if want := strconv.FormatUint(xxhash.Sum64String(name+"\x00"+id), 16); v.ID != want {
			t.Errorf("%d bytes: the id is %s, want %s", long, v.ID, want)
		}
		if v.CorrelationID != name || v.Scope.ID != name {
			t.Errorf("%d bytes: the answer names %q and %q", long, v.CorrelationID, v.Scope.ID)
		}
	}
}
