package scenario

import (
	"errors"
	"fmt"
	"strings"

	"weir/analyzer/limitfile"
	"weir/events"
)

// settle carries out the settings of a case. A limits file is put together line by line and read
// again after each, so that a fault in it is reported for the line that brought it in. The step
// is no part of limits; it is written back as clock spells it, so that Format is canonical.
func (p *parser) settle(c *Case, x *expansion) {
	var file, rules strings.Builder
	for i := range c.settings {
		s := &c.settings[i]
		switch s.word {
		case "step":
			d, err := duration(s.value)
			if err != nil {
				p.fail(s.line, "step: %w", err)
				continue
			}
			x.step, s.value = d, events.DurationText(d)
			continue
		case "profile":
			fmt.Fprintf(&file, "profile: %s\n", s.value)
		case "limits":
			fmt.Fprintf(&file, "%s\n", s.value)
		case "rule":
			// Rules are gathered apart, for they all stand under one key.
			fmt.Fprintf(&rules, "  %s\n", s.value)
		}
		// The key rules comes last, whatever the order of the settings: it may stand in a file
		// only once.
		text := file.String()
		if rules.Len() > 0 {
			text += "rules:\n" + rules.String()
		}
		l, err := limitfile.Parse("", []byte(text))
		if err != nil {
			p.refuse(s, err)
			return
		}
		c.limits = &l
	}
}

// refuse reports what is wrong with a setting. The lines that the problems have are those of the
// file that was put together, and mean nothing to the author of the case.
func (p *parser) refuse(s *setting, err error) {
	var problems *limitfile.Problems
	if !errors.As(err, &problems) {
		p.fail(s.line, "%s: %w", s.word, err)
		return
	}
	for _, q := range problems.List {
		text := strings.TrimPrefix(q.Path+": "+q.Message, ": ")
		if q.Hint != "" {
			text += "; " + q.Hint
		}
		p.fail(s.line, "%s: %s", s.word, text)
	}
}
