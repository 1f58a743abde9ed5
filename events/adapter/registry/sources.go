package registry

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"weir/events/adapter"
)

// Sources returns what is known of the programs and libraries whose logs weir reads, in
// the order in which they are shown.
// A format says what it gives in general; a source says it where the program gives less or
// more, and what it leaves out is the format's.
//
// The rows are texts for people, of which code reads Name, Known, Format and Gives.
func Sources() []adapter.Source {
	// The slice is made anew each time, so that the caller may change it.
	out := sources()
	for i := range out {
		s := &out[i]
		f, err := Lookup(s.Format)
		if err != nil { // the table is wrong, which its test says
			continue
		}
		if s.Gives == (adapter.Gives{}) {
			s.Gives = f.Gives
		}
		if s.Title == "" {
			s.Title = f.Title
		}
	}
	return out
}

// Source returns the source of that name or alias, or the first of the format of that name.
// For a mapping it returns what the mapping can report. The error wraps ErrUnknown.
func Source(name string) (adapter.Source, error) {
	// Three passes: names as they stand, then as people write them, then formats.
	all := Sources()
	for i := range all {
		if all[i].Name == name {
			return all[i], nil
		}
	}
	// Names as they stand go first, so that no nickname hides the name of another program.
	for i := range all {
		if alike(all[i].Name, name) || slices.ContainsFunc(all[i].Known, func(known string) bool { return alike(known, name) }) {
			return all[i], nil
		}
	}
	f, err := Lookup(name)
	if err != nil {
		return adapter.Source{}, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	for i := range all {
		if all[i].Format == f.Name {
			return all[i], nil
		}
	}
	// It has to stay the last row of the table.
	s := all[len(all)-1] // that of mappings
	s.Name, s.Format, s.Gives = name, name, f.Gives
	return s, nil
}

// alike compares names of programs as people write them: "Llama Index", "llama_index".
//
// So it is no matter of case, blanks, dashes, underscores and dots.
func alike(a, b string) bool {
	// -1 leaves a character out.
	plain := func(r rune) rune {
		if strings.ContainsRune(" -_.", r) {
			return -1
		}
		return unicode.ToLower(r)
	}
	return strings.Map(plain, a) == strings.Map(plain, b)
}
