package simulate

import (
	"fmt"
	"strings"
)

// String names the kinds, with commas between them.
// None is "".
func (f Faults) String() string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Set reads what String says.
// With String it makes a flag of it. A word that is not known is an error that lists all.
func (f *Faults) Set(text string) error {
	*f = None
	// Nothing between two commas is nothing, so that "" is None.
	for name := range strings.SplitSeq(text, ",") {
		found := name == ""
		for i, known := range faultNames {
			if name == known {
				*f |= 1 << i
				found = true
			}
		}
		if !found {
			return fmt.Errorf("no fault is called %q: there are %s", name, All)
		}
	}
	return nil
}
