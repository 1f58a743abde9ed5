package main

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

// isFormat takes what is no plain name of a format: otlp@conversation, which says what
// flows are called by, and mappings.
func isFormat(s string) error {
	_, err := registry.Lookup(s)
	if near := spelling.Nearest(s, formatNames()); err != nil && near != "" {
		return fmt.Errorf("want %s; did you mean %s", strings.Join(formatNames(), ", "), near)
	}
	return err
}

// mapFlag is a flag that takes a part of a mapping, or the file with it. The format is
// then the mapping.
type mapFlag struct {
	format *cli.Choice
	isFile bool
}

func (f mapFlag) String() string { return "" }

// Type is what pflag asks for.
func (f mapFlag) Type() string { return "mapping" }

// Set adds to the mapping.
func (f mapFlag) Set(s string) error {
	if f.isFile {
		text, err := os.ReadFile(s)
		if err != nil {
			return err
		}
		s = string(text)
	}
	before, isMapping := strings.CutPrefix(f.format.Value, mapped.Prefix)
	if !isMapping && f.format.Value != "" {
		return fmt.Errorf("--format %s is given beside it", f.format.Value)
	}
	f.format.Value = mapped.Prefix + strings.TrimPrefix(before+"\n"+s, "\n")
	return nil
}

// followed reads [FORMAT=]FILE. A mapping ends at the last equals sign; one in a file is
// named as map@FILE=LOG.
func followed(s string) (f intake.Follow, err error) {
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
