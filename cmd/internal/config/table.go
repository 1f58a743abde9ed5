package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer/spelling"
	"weir/analyzer/strictyaml"
	"weir/cmd/internal/cli"
)

// FileFlag is the name of the flag that names the configuration file.
const FileFlag = "config"

// AddFileFlag declares the flag that names the configuration file.
//
// A set of flags without it reads no file, whatever the environment says.
func AddFileFlag(fs *pflag.FlagSet) {
	fs.String(FileFlag, "", "take settings that no flag gives from this configuration `FILE` ("+Variable(FileFlag)+")")
}

// prefix begins the names of all variables.
const prefix = "WEIR_"

// Variable returns the environment variable of a setting.
//
// It is the only place that makes such names.
func Variable(name string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Table is the settings of a program: the flags of the command that serves.
type Table struct{ flags *pflag.FlagSet }

// NewTable returns the table of the flags that declare declares, but for the one that names the file.
//
// The values are those of unparsed flags: the table is used for names, types and texts.
func NewTable(declare func(*pflag.FlagSet)) *Table {
	all, flags := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(all)
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name != FileFlag {
			flags.Var(f.Value, f.Name, f.Usage)
		}
	})
	return &Table{flags}
}

// Default is the origin of a value that was not set.
const Default = "default"

// Setting is a setting with its value and where that comes from.
//
// It may be printed anywhere: nothing in it is secret.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // as a flag is given it; without what is secret in it
	Origin string `json:"origin"` // Default, FILE:LINE, the name of a variable, or of a flag
}

// Load sets the flags of fs that are settings and were not given on the command line. It takes their
// values from the environment and the configuration file, and returns all settings of fs. Flags named
// in except have another meaning than the setting of their name and are not touched. Rejected values
// are one usage error, which lists all of them.
//
// A flag counts as given when it was on the command line, even with the value of its default. An empty
// variable counts as none. Flags of fs that are no settings are not touched and not returned.
func (t *Table) Load(fs *pflag.FlagSet, getenv func(string) string, except ...string) ([]Setting, error) {
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	file, err := t.file(fs, given, getenv)
	if err != nil {
		return nil, err
	}
	var list []Setting
	var faults []error
	fs.VisitAll(func(f *pflag.Flag) {
		if t.flags.Lookup(f.Name) == nil || slices.Contains(except, f.Name) {
			return
		}
		origin, err := settle(f, given[f.Name], file, getenv)
		faults = append(faults, err)
		list = append(list, Setting{f.Name, printable(f.Value), origin})
	})
	if err := errors.Join(faults...); err != nil {
		return nil, cli.Usage("%w", err).Advise("weir config print shows each setting and where it comes from")
	}
	return list, nil
}

// Strange returns a sentence for each variable of the environment, NAME=VALUE, that
// looks like that of a setting and is none. The names in also are of variables that are
// for others.
func (t *Table) Strange(environ []string, also ...string) (list []string) {
	names := append([]string{Variable(FileFlag)}, also...)
	t.flags.VisitAll(func(f *pflag.Flag) {
		names = append(names, Variable(f.Name))
		if _, ok := f.Value.(*Secret); ok {
			names = append(names, secretVariable(f.Name))
		}
	})
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		// Kubernetes sets such variables for a service with the name weir, in each container beside
		// it. No setting begins so.
		isService := strings.HasPrefix(name, "WEIR_PORT") || strings.HasPrefix(name, "WEIR_SERVICE_")
		if !strings.HasPrefix(name, prefix) || isService || slices.Contains(names, name) {
			continue
		}
		text := name + " is set, and there is no such setting"
		if near := spelling.Nearest(name, names); near != "" && spelling.Nearest(name[len(prefix):], []string{near[len(prefix):]}) != "" {
			text += "; did you mean " + near
		}
		list = append(list, text)
	}
	return list
}

// settle gives one flag its value and returns where that comes from.
func settle(f *pflag.Flag, given bool, file *file, getenv func(string) string) (origin string, err error) {
	variable := Variable(f.Name)
	secret, isSecret := f.Value.(*Secret)
	// A secret in the environment goes before the name of its file in the configuration file,
	// as the environment does for all settings.
	if isSecret && !given {
		if origin, err = secret.take(f.Name, getenv); origin != "" || err != nil {
			return origin, err
		}
	}
	if given {
		return "--" + f.Name, nil
	}
	if text := getenv(variable); text != "" {
		values, err := fromText(f.Value, text)
		if err == nil {
			err = set(f.Value, values)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return variable, nil
	}
	if e, ok := file.entries[f.Name]; ok {
		if err := set(f.Value, e.values); err != nil {
			return "", fmt.Errorf("%s:%d:%d: %s: %w", file.name, e.line, e.column, f.Name, err)
		}
		return fmt.Sprintf("%s:%d", file.name, e.line), nil
	}
	return Default, nil
}

// file reads the file that the flag or the environment names; without one it is empty.
func (t *Table) file(fs *pflag.FlagSet, given map[string]bool, getenv func(string) string) (*file, error) {
	f := fs.Lookup(FileFlag)
	if f == nil {
		return &file{}, nil
	}
	name, by := f.Value.String(), "--"+FileFlag
	if !given[FileFlag] {
		name, by = getenv(Variable(FileFlag)), Variable(FileFlag)
	}
	if name == "" {
		return &file{}, nil
	}
	data, err := readSome(name)
	if err != nil {
		return nil, cli.Failure("%s: %w", by, err)
	}
	read, err := t.read(name, data)
	if err != nil {
		return nil, cli.Failure("%w", err).Advise("weir config schema prints the schema, for editors")
	}
	return read, nil
}

// readSome reads a file that is not larger than a configuration file may be.
func readSome(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One byte more, so that one that is too large is refused and not cut.
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxSize+1))
}

// set gives a flag its values: many only to one that takes many.
func set(v pflag.Value, values []string) error {
	for _, text := range values {
		if err := v.Set(text); err != nil {
			return fmt.Errorf("invalid value %q: %w", text, err)
		}
	}
	return nil
}

// printable returns the value without what may be secret in it: users, passwords and
// queries of URLs.
//
// Values that are lists of URLs may not read as one URL, and are not shown then.
func printable(v pflag.Value) string {
	text := v.String()
	if s, ok := v.(*Secret); ok && text == "" && s.Given() {
		return "(not shown)"
	}
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	if u.User != nil {
		u.User = url.User("xxxxx")
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx"
	}
	return u.String()
}
