package outcome

import (
	"bytes"
	"slices"
	"strings"

	"weir/events/adapter/jsonwalk"
)

// refusals are words in what an editor says first when it changed nothing, in small letters.
var refusals = []string{"not", "cannot", "can't", "couldn't", "didn't", "doesn't", "unable", "failed", "fails", "failure", "rejected", "refused", "denied", "skipped", "unchanged",
	"invalid", "missing", "mismatch", "ambiguous", "unsuccessful", "false"}

// nothings are what there is none of when nothing was changed: "no match", "0 replacements".
var nothings = []string{"match", "matches", "change", "changes", "replacement", "replacements", "diff", "edit", "edits", "edited", "occurrence", "occurrences", "such", "difference", "differences"}

// accepts are words of an editor that changed something. Behind them may stand what it found there.
var accepts = []string{"success", "successfully", "succeeded", "updated", "created", "applied", "written", "wrote", "saved", "replaced", "inserted", "edited", "modified", "overwritten", "patched"}

// maxHead is how much of a result is read for a refusal: what changed nothing says so at its
// beginning, and behind that may stand the file.
const maxHead = 240

// refuses reports whether the result of an editor says under status ok that nothing was changed.
func refuses(said []byte) bool {
	said = bytes.TrimSpace(said)
	if len(said) > 0 && said[0] == '{' {
		return refusesObject(said)
	}
	head, accepted := said[:min(len(said), maxHead)], false
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		for sentence := range bytes.SplitSeq(line, []byte(". ")) {
			switch refused, done := verdict(sentence); {
			case refused && !accepted:
				return true
			case done:
				accepted = true
			}
		}
	}
	return bytes.Contains(bytes.ToLower(head), []byte("multiple matches")) || bytes.Contains(bytes.ToLower(head), []byte("must be unique"))
}

// verdict reads a sentence: whether it says that something was refused, or that it was done.
func verdict(sentence []byte) (refused, done bool) {
	var words []string
	for w := range bytes.FieldsSeq(bytes.ToLower(sentence)) {
		w = bytes.Trim(w, ",:;()[]<>\"'`*!.")
		// A word with such a sign in it is the name of a file or of an argument.
		if len(w) == 0 || len(w) > 24 || bytes.ContainsAny(w, "/\\._<>{}=#") {
			continue
		}
		words = append(words, string(w))
	}
	for i, w := range words {
		none := (w == "no" || w == "0" || w == "zero") && i+1 < len(words) && slices.Contains(nothings, words[i+1])
		switch {
		case slices.Contains(refusals, w), none, i == 0 && strings.HasPrefix(w, "error"), w == "syntax" && i+1 < len(words) && words[i+1] == "error":
			return !done, done
		case slices.Contains(accepts, w):
			done = true
		}
	}
	// "Found 3 matches of the string": an editor that asks which one.
	return len(words) > 2 && words[0] == "found" && (words[2] == "matches" || words[2] == "occurrences"), done
}

// refusesObject reads a result that is an object: {"success": false}, {"applied": 0}.
func refusesObject(said []byte) (refused bool) {
	c := jsonwalk.New(said)
	for c.Object(); c.Member(); {
		switch key := string(bytes.ToLower(c.Key())); key {
		case "success", "ok", "applied", "updated", "changed", "modified", "replacements", "edited":
			switch c.Peek() {
			case 'f':
				refused = true
			case '0':
				refused = true
			}
		case "error", "errormessage":
			if c.Peek() == '"' && len(c.Text()) > 0 {
				refused = true
			}
		case "status":
			if c.Peek() == '"' {
				switch strings.ToLower(string(c.Text())) {
				case "error", "failed", "failure", "rejected":
					refused = true
				}
			}
		case "message", "output", "result", "content":
			if c.Peek() == '"' {
				refused = refused || refuses(c.Text())
			}
		}
	}
	return refused
}

// nothingFound are what results say, in small letters, that found nothing.
var nothingFound = [...]string{"no match", "no result", "not found", "nothing found", "0 result", "0 match", "0 hits", "no hits", "no data", "no rows", "0 rows", "no records", "no files found", "no entries",
	"no items", "no documents", "no such", "nothing matches", "none found", "does not exist", "no matching", "no output"}

// foundNothing reports whether a short result says that there was nothing to find.
func foundNothing(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) > maxHead {
		return false
	}
	low := string(bytes.ToLower(text))
	if slices.ContainsFunc(nothingFound[:], func(words string) bool { return strings.Contains(low, words) }) {
		return true
	}
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	// {"hits": [], "total": 0}
	lists := 0
	c := jsonwalk.New(text)
	for c.Object(); c.Member(); {
		switch c.Peek() {
		case '[':
			for c.Array(); c.Element(); c.Skip() {
				return false
			}
			lists++
		case '0', 'n':
			c.Skip()
		default:
			return false
		}
	}
	return lists > 0 && c.Err() == nil
}

// Refuses reports whether the result says that nothing was changed.
func (s *Said) Refuses() bool { return s.rejected }

// FoundNothing reports whether the result says that there was nothing to find.
func (s *Said) FoundNothing() bool { return s.nothing }
