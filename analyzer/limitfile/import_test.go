package limitfile_test

import (
	"testing"

	"weir/analyzer/limitfile"
)

func TestImport(t *testing.T) {
	golden(t, "import.txt", func(input string) string {
		out, err := limitfile.Import("source", []byte(input))
		if err != nil {
			checkProblems(t, err)
			return err.Error()
		}
		l, err := limitfile.Parse("imported", out)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		checkLaws(t, l)
		return string(out)
	})
}

// Each system's own defaults, imported, are its profile.
func TestImportOfDefaultsIsTheProfile(t *testing.T) {
	f := func(profile, text string) {
		t.Helper()
		out, err := limitfile.Import("source", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		l, err := limitfile.Parse("imported", out)
		if err != nil {
			t.Fatal(err)
		}
		want, err := limitfile.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		if d := limitfile.Diff(want, l); len(d) > 0 || l.Version != want.Version {
			t.Errorf("%s: %v", profile, d)
		}
	}
	f("delegation", `{"maxStackDepth": 5, "maxUniqueSessions": 10, "maxDuration": 300, "maxCallsPerMinute": 20, "maxTotalCalls": 100, "maxRevisits": 4}`)
	f("team", `{"protection": {"max_agent_messages_per_minute": 10, "max_conversation_messages": 10}}`)
	f("team", `{"protection": {"max_agent_messages_per_minute": 10, "max_chain_depth": 10}}`)
	f("task", `{"max_loops_per_task": 3, "max_reflect_loops": 3, "max_delegation_depth": 2}`)
	f("gateway", "maxToolCalls: 10\nmaxTurns: 5\nmaxChainDepth: 4\nrepetitionWindow: 3\nrepetitionMaxDups: 1\nsessionTTLSec: 600\n")
	f("gateway", "maxToolCalls: 0\n")
}
