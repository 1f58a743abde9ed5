package operate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/limits"
)

// LimitFlags is the flags that set the limits to judge by: a profile, a file, single
// values, each over the one before.
//
// All are empty when no flag is given, which means the balanced profile.
type LimitFlags struct {
	Profile *cli.Choice
	File    *string
	Sets    *cli.List
	Prices  *string
}

// NewLimitFlags declares the flags.
// Commands that judge declare them alike, so a profile is said in the same way everywhere.
func NewLimitFlags(fs *pflag.FlagSet) *LimitFlags {
	return &LimitFlags{
		Profile: cli.NewChoice(fs, "profile", "", "judge by the limits of this `PROFILE`: "+strings.Join(limitfile.Profiles(), ", "), limitfile.Profiles()...),
		File:    fs.String("limits", "", "judge by this limits `FILE`"),
		Sets:    cli.NewList(fs, "set", "change one value, `KEY=VALUE`, such as rules.max_total_calls=50 or flow.idle=5m; repeatable"),
		Prices:  fs.String("prices", "", "prices of tokens, in LiteLLM's form, for events without a cost (`FILE`); see weir prices show"),
	}
}

// Chosen reports whether any of the flags is given.
func (j *LimitFlags) Chosen() bool {
	return *j.File != "" || j.Profile.Value != "" || len(*j.Sets) > 0 || *j.Prices != ""
}

// Limits returns what the flags say, with the prices that limits.Priced adds; the balanced profile
// when they say nothing.
func (j *LimitFlags) Limits() (analyzer.Limits, error) {
	l, err := j.unpriced()
	if err != nil {
		return l, err
	}
	var t prices.Table
	if *j.Prices != "" {
		if t, err = costs.ReadPrices(*j.Prices); err != nil {
			return l, cli.Failure("the prices: %w", err)
		}
	}
	l = limits.Priced(l, t)
	if err := limitfile.Validate(&l); err != nil {
		return l, cli.Failure("the prices: %w", err)
	}
	return l, nil
}

// unpriced returns the limits without added prices.
//
// It reads the file each time that it is called. Flags go over the file by becoming a part
// of it: the text is put together and read again, so that values on the command line are
// checked like those in the file and the version is that of the whole.
func (j *LimitFlags) unpriced() (analyzer.Limits, error) {
	var data []byte
	name := *j.File
	if name != "" {
		var err error
		if data, err = os.ReadFile(name); err != nil {
			return analyzer.Limits{}, err
		}
		// The file alone first, so that errors in it are reported with their lines.
		l, err := limitfile.Parse(name, data)
		if err != nil {
			return analyzer.Limits{}, LimitsFault(err)
		}
		if j.Profile.Value == "" && len(*j.Sets) == 0 {
			return l, nil
		}
	}
	sets := *j.Sets
	// The profile first, and in one list with the values, so that --set goes over it.
	if j.Profile.Value != "" {
		sets = append([]string{"profile=" + j.Profile.Value}, sets...)
	}
	if len(sets) == 0 {
		return limitfile.Default(), nil
	}
	data, err := withValues(data, sets)
	if err != nil {
		return analyzer.Limits{}, err
	}
	// Lines of this text mean nothing to anybody, so it has no name.
	l, err := limitfile.Parse("", data)
	if err != nil {
		return analyzer.Limits{}, setFault(err)
	}
	return l, nil
}

// LimitsFault reports a file that was refused.
//
// It is a failure and not a fault of use, as the file needs a fix and not the command.
func LimitsFault(err error) error {
	return cli.Failure("%w", err).Advise("weir limits validate FILE lists all that is wrong; weir limits schema prints the schema")
}

// setFault reports values that were refused; line numbers mean nothing for values on a command line.
//
// Only the first problem is reported: it is named by its key, which is what was typed.
func setFault(err error) error {
	problems, ok := errors.AsType[*limitfile.Problems](err)
	if !ok {
		return err
	}
	p := problems.List[0]
	f := cli.Usage("--set %s: %s", p.Path, p.Message)
	if p.Hint != "" {
		return f.Advise("%s", p.Hint)
	}
	return f.Advise("weir limits show prints all keys with their values")
}

// withValues puts values, each KEY=VALUE, into a limits file.
//
// The rest of the file keeps its meaning but not its layout; only the parser reads the
// result.
func withValues(data []byte, sets []string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(doc.Content) > 0 {
		root = doc.Content[0]
	}
	for _, s := range sets {
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, cli.Usage("--set %s: want KEY=VALUE", s).Advise("for example --set rules.max_total_calls=50")
		}
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(text), &value); err != nil || len(value.Content) == 0 {
			return nil, cli.Usage("--set %s: %q is no value", key, text).Advise("for example --set rules.max_total_calls=50")
		}
		if err := put(root, strings.Split(key, "."), value.Content[0]); err != nil {
			return nil, cli.Usage("--set %s: %w", key, err)
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// put sets the value at a path of a mapping and makes the mappings on the way.
//
// The value at the path is replaced where there is one. Mappings on the way are written in
// block form.
func put(n *yaml.Node, path []string, value *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("there is a single value above it; give that as a mapping, such as {warn: 3, stop: 6}")
	}
	n.Style = 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != path[0] {
			continue
		}
		if len(path) == 1 {
			n.Content[i+1] = value
			return nil
		}
		return put(n.Content[i+1], path[1:], value)
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}
	if len(path) > 1 {
		inner := &yaml.Node{Kind: yaml.MappingNode}
		n.Content = append(n.Content, key, inner)
		return put(inner, path[1:], value)
	}
	n.Content = append(n.Content, key, value)
	return nil
}
