package operate

import (
	"fmt"
	"os"
	"strings"

	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/intake"
	"weir/events/adapter/mapped"
	"weir/events/adapter/registry"
)

// IsFormat takes what is no plain name of a format: otlp@conversation, which says what
// flows are called by, and mappings.
//
// It is for cli.Choice.Other: nil takes the word.
func IsFormat(s string) error {
	_, err := registry.Lookup(s)
	if near := spelling.Nearest(s, FormatNames()); err != nil && near != "" {
		return fmt.Errorf("want %s; did you mean %s", strings.Join(FormatNames(), ", "), near)
	}
	return err
}

// MapFlag is a flag that takes a part of a mapping, or the file with it. The format is
// then the mapping.
//
// Parts of several flags are joined by line ends in the order in which they were given.
// Beside another --format it is refused.
type MapFlag struct {
	Format *cli.Choice
	IsFile bool
}

// String is the default that help prints: none.
func (f MapFlag) String() string { return "" }

// Type is what pflag asks for.
func (f MapFlag) Type() string { return "mapping" }

// Set adds to the mapping.
func (f MapFlag) Set(s string) error {
	if f.IsFile {
		text, err := os.ReadFile(s)
		if err != nil {
			return err
		}
		s = string(text)
	}
	before, isMapping := strings.CutPrefix(f.Format.Value, mapped.Prefix)
	if !isMapping && f.Format.Value != "" {
		return fmt.Errorf("--format %s is given beside it", f.Format.Value)
	}
	f.Format.Value = mapped.Prefix + strings.TrimPrefix(before+"\n"+s, "\n")
	return nil
}

// Followed reads [FORMAT=]FILE. A mapping ends at the last equals sign; one in a file is
// named as map@FILE=LOG.
//
// If a file exists whose whole name holds an equals sign, that file is followed. An argument
// that begins like an unknown format is refused only if no such file exists. Format is empty
// when it is to be detected.
func Followed(s string) (f intake.Follow, err error) {
	format, path, ok := strings.Cut(s, "=")
	if strings.HasPrefix(s, mapped.Prefix) {
		i := strings.LastIndex(s, "=")
		format, path, ok = s[:max(i, 0)], s[i+1:], i > 0
	}
	if file, isFile := strings.CutPrefix(format, "map@"); ok && isFile {
		text, err := os.ReadFile(file)
		if err != nil {
			return f, cli.Usage("--follow %s: %w", s, err)
		}
		format = mapped.Prefix + string(text)
	}
	if !ok {
		return intake.Follow{Path: s}, nil
	}
	if _, err = registry.Lookup(format); err == nil {
		return intake.Follow{Path: path, Format: format}, nil
	}
	if _, gone := os.Stat(s); gone != nil && (strings.HasPrefix(format, "map") || !strings.ContainsAny(format, "/.")) {
		return f, cli.Usage("--follow %s: %w", s, err)
	}
	return intake.Follow{Path: s}, nil
}

// FormatNames are the names of the formats that weir reads.
func FormatNames() (out []string) {
	for _, f := range registry.Formats() {
		out = append(out, f.Name)
	}
	return out
}
