package agents

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/events"
)

func TestNotesAreKeptWithinBounds(t *testing.T) {
	y := newAgentPlay(t)
	long := strings.Repeat("ä", 1024)
	tags := make([]string, 32)
	for i := range tags {
		tags[i] = fmt.Sprint("tag-", i, "-", strings.Repeat("é", 30))
	}
	for i := range 100 {
		y.step(time.Duration(i)*time.Second, events.Event{Kind: events.NoteAdded, From: events.Party{Session: fmt.Sprint("author-", i)}, To: probe,
			Note: &events.Note{Summary: fmt.Sprint(i, " ", long), Tags: tags}})
	}
	notes := y.a.Notes("")
	if len(notes) != maxNotes {
		t.Fatalf("%d notes are kept, want %d", len(notes), maxNotes)
	}
	for i, n := range notes {
		if want := fmt.Sprint("author-", 99-i); n.Author != want || n.Agent != "probe" || events.Stamp(n.Time) != dawn.Add(time.Duration(99-i)*time.Second) {
			t.Errorf("note %d is by %s of %v, want by %s: the newest come first", i, n.Author, n.Time, want)
		}
		if !strings.HasPrefix(n.Summary, fmt.Sprint(99-i, " ä")) || len(n.Summary) > maxNoteBytes || !utf8.ValidString(n.Summary) {
			t.Errorf("summary of %d bytes: %.20q", len(n.Summary), n.Summary)
		}
		if len(n.Tags) != maxNoteTags {
			t.Errorf("%d tags are kept, want %d", len(n.Tags), maxNoteTags)
		}
		for _, tag := range n.Tags {
			if len(tag) > maxTagBytes || !utf8.ValidString(tag) {
				t.Errorf("tag of %d bytes: %q", len(tag), tag)
			}
		}
	}
	if got := y.told(); got != "" {
		t.Errorf("notes alone brought about\n%s", got)
	}
}

func TestNotesByTag(t *testing.T) {
	y := newAgentPlay(t)
	y.note(time.Second, probe, events.Party{}, "plan", "Blocked")
	y.note(2*time.Second, events.Party{Agent: "peer"}, probe, "blocked")
	y.note(3*time.Second, events.Party{}, probe, "other")
	f := func(tag string, want ...string) {
		t.Helper()
		var got []string
		for _, n := range y.a.Notes(tag) {
			got = append(got, n.Author)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("tag %q: notes by %q, want %q", tag, got, want)
		}
	}
	f("blocked", "peer", "probe")
	f("plan", "probe")
	f("block")
	f("", "", "peer", "probe")
}
