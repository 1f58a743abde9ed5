package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a file. Path names the place as a person would look
// for it. Path and line are both reported, since a file may be made by a program.
type Problem struct {
	Line, Column int    // from 1; 0 when it is about the file as a whole
	Path         string // such as rules.max_turns.warn or state; empty for the whole file
	Message      string // what is wrong
	Hint         string // how to go on; may be empty
}

// Problems is the error for a file that was refused: all that is wrong with it, in
// the order of its lines. The zero value has none. It becomes an error by Err alone, so that
// no empty list is returned as one.
type Problems struct {
	Name string // of the file
	List []Problem
	More int // problems that were found and not listed
}

// maxProblems is how many problems of one file are reported. A file of another kind has one in
// each line.
const maxProblems = 100

// Error returns two lines at most for each problem: where and what, then how to go on.
func (p *Problems) Error() string {
	var b strings.Builder
	for i := range p.List {
		q := &p.List[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		if p.Name != "" {
			b.WriteString(p.Name + ":")
		}
		// In the form that editors and terminals make a link of.
		if q.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", q.Line, q.Column)
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte(' ')
		}
		if q.Path != "" {
			b.WriteString(q.Path + ": ")
		}
		b.WriteString(q.Message)
		if q.Hint != "" {
			b.WriteString("\n    " + q.Hint)
		}
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "\nand %d more problems", p.More)
	}
	return b.String()
}

// Add lists one problem more, or counts it when there are many already.
func (p *Problems) Add(q Problem) {
	if len(p.List) == maxProblems {
		p.More++
		return
	}
	p.List = append(p.List, q)
}

// Err returns the problems in the order of the file, or nil if there are none. It sorts by
// place: readers look at sections in an order of their own.
func (p *Problems) Err() error {
	if len(p.List) == 0 {
		return nil
	}
	// Stable, so that two at one place stay in the order in which they were found.
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

// Quote shows text from a file on one line. It is cut at 60 bytes, so that a message stays a
// line.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}
