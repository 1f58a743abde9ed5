// Package registry lists the log formats that weir reads.
package registry

import (
	"errors"
	"fmt"
	"strings"

	"weir/events/adapter"
	"weir/events/adapter/a2a"
	"weir/events/adapter/adk"
	"weir/events/adapter/autogen"
	"weir/events/adapter/canonical"
	"weir/events/adapter/claudecode"
	"weir/events/adapter/crewai"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/mcp"
	"weir/events/adapter/openaiagents"
	"weir/events/adapter/openhands"
	"weir/events/adapter/otlp"
	"weir/events/adapter/trace"
)

// Formats returns all formats, in the order in which they are shown.
func Formats() []adapter.Format {
	return []adapter.Format{
		canonical.Format(),
		otlp.Format(),
		claudecode.Format(),
		trace.Format(),
		openaiagents.Format(),
		langsmith.Format(),
		crewai.Format(),
		autogen.Format(),
		mcp.Format(),
		openhands.Format(),
		adk.Format(),
		a2a.Format(),
	}
}

// ErrUnknown is returned when no format has a name or fits an input.
var ErrUnknown = errors.New("unknown format")

// ErrAmbiguous is returned when an input fits several formats.
var ErrAmbiguous = errors.New("ambiguous format")

// Lookup returns the format of that name, or an error that wraps ErrUnknown and
// lists the names.
func Lookup(name string) (adapter.Format, error) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return adapter.Format{}, fmt.Errorf("%w %q: want one of %s", ErrUnknown, name, names(Formats()))
}

// Detect tells the format of an input by its beginning, of which a few KiB are
// enough. A format that fits for certain beats one that may fit. The error wraps
// ErrUnknown, or ErrAmbiguous and then names the formats that fit.
func Detect(head []byte) (adapter.Format, error) { return detect(head, Formats()) }

func detect(head []byte, formats []adapter.Format) (adapter.Format, error) {
	best, fit := adapter.Maybe, []adapter.Format(nil)
	for _, f := range formats {
		switch m := f.Score(head); {
		case m < best:
		case m == best:
			fit = append(fit, f)
		default:
			best, fit = m, []adapter.Format{f}
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return adapter.Format{}, fmt.Errorf("%w: the input looks like none of %s; name one with --format", ErrUnknown, names(formats))
	}
	return adapter.Format{}, fmt.Errorf("%w: the input looks like each of %s; name one with --format", ErrAmbiguous, names(fit))
}

func names(formats []adapter.Format) string {
	var out []string
	for _, f := range formats {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}
