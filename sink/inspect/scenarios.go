package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/scenario"
)

// Scenario is one case of the rule book.
// Line is where it begins in its file, from 1.
type Scenario struct {
	File  string `json:"file"` // without its ending
	Line  int    `json:"line"`
	Title string `json:"title"`
	Text  string `json:"text"` // the case as it is written
}

// Scenarios reads all cases of the .flow files in a folder, in the order of their names.
// A case that cannot be read is an error of the whole.
func Scenarios(folder fs.FS) ([]Scenario, error) {
	names, err := fs.Glob(folder, "*.flow")
	if err != nil {
		return nil, err
	}
	var out []Scenario
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read the rule book: %w", err)
		}
		cases, err := scenario.Parse(name, text)
		if err != nil {
			return nil, fmt.Errorf("read the rule book: %w", err)
		}
		for i := range cases {
			c := &cases[i]
			// The text is as it is written, comments and all, because people read it.
			out = append(out, Scenario{strings.TrimSuffix(path.Base(name), ".flow"), c.Line, c.Title(), c.String()})
		}
	}
	return out, nil
}

// Played is what became of a case.
// The timeline is that of the limits that were played, whatever the case expects.
type Played struct {
	Timeline
	Title  string   `json:"title"`
	Limits string   `json:"limits"` // as a limits file
	Want   []string `json:"want"`   // the outcome that the case expects
	Got    []string `json:"got"`
	Diff   string   `json:"diff,omitempty"` // lines that are missing with -, those too many with +
}

// MaxScenario is how many bytes a case may have that is to be played.
// The text comes from a page, and is folded while its sender waits.
const MaxScenario = 64 << 10

// Play folds a case with an engine of its own. It uses the limits file that is given; if that is
// empty, the limits of the case, or else base. Its errors are for the author of the text.
func Play(text, limits string, base analyzer.Limits) (Played, error) {
	if len(text) > MaxScenario {
		return Played{}, fmt.Errorf("the case has %d bytes; at most %d are played", len(text), MaxScenario)
	}
	cases, err := scenario.Parse("scenario", []byte(text))
	if err != nil {
		return Played{}, err
	}
	// None and several are refused alike: what is shown is one timeline.
	if len(cases) != 1 {
		return Played{}, errors.New("this is not one case; an empty line ends a case")
	}
	c := &cases[0]
	// What the case says of limits counts for base alone: limits that are given are complete.
	l := c.Limits(base)
	if limits != "" {
		if l, err = limitfile.Parse("limits", []byte(limits)); err != nil {
			return Played{}, err
		}
	}
	// Twice, for the outcome and for the steps: Run keeps no steps, and Fold knows nothing of
	// what is expected.
	out := c.Run(l)
	return Played{Timeline: Fold(l, c.Events(), c.End()), Title: c.Title(), Limits: string(limitfile.Format(l)), Want: c.Want, Got: out.Lines(), Diff: c.Diff(&out)}, nil
}
