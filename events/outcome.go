package events

import "strings"

// Outcome is what a tool call achieved, as far as its adapter could read it from the result. It
// holds hashes, counts and small enums, never the text.
type Outcome struct {
	Effect Effect
	State  Hash     // of the content that was changed, with its path, as it is after the call; equal hashes are the same state
	Files  int64    // number of files that were changed; 0 is not reported
	Exit   Optional // exit code of the command
	// Tests that passed and failed, as the test program counts them.
	Passed, Failed Optional
}

// Effect is whether a call changed anything.
type Effect uint8

// The effects. Stored flows hold the number, so a new one comes at the end.
const (
	EffectUnset    Effect = iota
	EffectRead            // it only looked
	EffectChanged         // it changed something
	EffectRejected        // it should have changed something and did not: an edit that was refused
)

var effectNames = [...]string{"", "read", "changed", "rejected"}

// String returns the effect as the schema spells it.
func (e Effect) String() string { return nameOf(effectNames[:], uint8(e)) }

// acting are the words with which names of tools begin that change something. Tools that run
// something, and so return what it printed, are not among them.
var acting = [...]string{"create", "send", "post", "delete", "remove", "update", "put", "insert", "add", "write", "cancel", "publish", "push", "upload",
	"pay", "transfer", "book", "set", "edit", "move", "rename", "archive", "assign", "schedule", "save", "store", "mark", "replace", "append", "apply", "patch"}

// looking are words in names of tools that return something all the same, such as
// add_and_list_items.
var looking = [...]string{"status", "state", "progress", "poll", "output", "result", "stdin", "list", "get", "read", "search"}

// finding are the words with which names of tools begin that only look something up.
var finding = [...]string{"find", "search", "grep", "glob", "ls", "list", "lookup", "which"}

// NamedEffect returns what calls of a tool do by the words of its name: create_event,
// mcp__calendar__createEvent and Write change something, find_file looks. EffectUnset where the
// name does not say.
func NamedEffect(tool string) Effect {
	name := tool[strings.LastIndex(tool, "__")+1:]
	name = strings.TrimRight(name, "./:")
	name = strings.TrimLeft(name[strings.LastIndexAny(name, "./:")+1:], "_")
	switch {
	case beginsWith(name, acting[:]) && !containsWord(name, looking[:]):
		return EffectChanged
	case beginsWith(name, finding[:]):
		return EffectRead
	}
	return EffectUnset
}

// beginsWith reports whether the first word of the name is one of the words, in any case.
func beginsWith(name string, words []string) bool {
	for _, word := range words {
		if len(name) < len(word) || !strings.EqualFold(name[:len(word)], word) {
			continue
		}
		if rest := name[len(word):]; rest == "" || rest[0] < 'a' || rest[0] > 'z' {
			return true
		}
	}
	return false
}

// containsWord reports whether the name contains one of the words, in any case.
func containsWord(name string, words []string) bool {
	name = strings.ToLower(name)
	for _, word := range words {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
