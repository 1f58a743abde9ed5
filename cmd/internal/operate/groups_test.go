package operate

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagGroups holds that each flag that a group of the help names is there, in one group.
func TestFlagGroups(t *testing.T) {
	c := RunCommand()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.Setup(fs)
	in := map[string]string{}
	for _, g := range c.Groups {
		for _, name := range g.Flags {
			if fs.Lookup(name) == nil {
				t.Errorf("%s: there is no flag --%s", g.Title, name)
			}
			if in[name] != "" {
				t.Errorf("--%s is in %s and in %s", name, in[name], g.Title)
			}
			in[name] = g.Title
		}
	}
	left := 0
	fs.VisitAll(func(f *pflag.Flag) {
		if in[f.Name] == "" {
			left++
		}
	})
	if left > 6 {
		t.Errorf("%d flags are in no group", left)
	}
}
