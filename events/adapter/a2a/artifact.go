package a2a

import (
	"bytes"

	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// artifact is one that a task made, or a piece of one.
type artifact struct {
	id   string // empty in messages of other makes
	text []byte // its own, see jsonwalk.Cursor.Texts
}

// artifacts are those of a task, in the order in which each began. A stream may bring pieces of several in
// turn, and a whole one again when it has changed.
type artifacts []artifact

// maxArtifacts is how many are distinguished. Text of later ones is added to the last.
const maxArtifacts = 64

// take takes in an artifact: more is a piece of the one with its id, anything else takes its place.
func (all *artifacts) take(a artifact, more bool) {
	if len(a.text) == 0 {
		return
	}
	for i := range *all {
		switch known := &(*all)[i]; {
		case a.id == "" && !(more && i == len(*all)-1), known.id != a.id && a.id != "":
		case more:
			known.text = append(known.text, a.text...)
			return
		default:
			known.text = a.text
			return
		}
	}
	if len(*all) == maxArtifacts {
		last := &(*all)[maxArtifacts-1]
		last.text = append(append(last.text, '\n'), a.text...)
		return
	}
	*all = append(*all, a)
}

// text is what all of them say.
func (all artifacts) text() []byte {
	texts := make([][]byte, len(all))
	for i := range all {
		texts[i] = all[i].text
	}
	return bytes.Join(texts, []byte("\n"))
}

// readArtifact reads the id and the texts of an artifact.
func readArtifact(c *jsonwalk.Cursor) (a artifact) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "artifactId":
			a.id = adapter.ID(c.Text())
		case "parts":
			a.text = c.Texts()
		}
	}
	return a
}
