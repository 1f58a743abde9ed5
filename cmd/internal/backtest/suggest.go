package backtest

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/dustin/go-humanize"

	"weir/analyzer"
	"weir/analyzer/forecast"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/cmd/internal/costs"
	"weir/events"
)

// Suggestion is a threshold for one row and what it stands on.
//
// Setting is the whole setting of the row, with the thresholds as they are when Changed is
// false.
type Suggestion struct {
	Row      analyzer.RuleID
	Setting  rules.Setting
	Evidence string // one sentence
	Changed  bool
}

// LeastFlows is the least number of honest flows for a suggestion, unless the caller sets another.
const LeastFlows = 100

// headroom is by how much a suggested threshold lies above the greatest honest value.
//
// Logs do not hold the greatest flow that will ever come.
const headroom = 1.25

// Suggest suggests thresholds under which no flow is stopped that is honest work, as far
// as anybody has said: flows that are marked wrong, and those of which nothing was said
// and that no rule stopped. A budget (a limit that counts up to a most) may become
// stricter than it is; what finds patterns only becomes more patient, since that honest
// flows never repeat themselves says nothing about the first that does.
//
// Rows that no honest flow has measured anything in get no suggestion. The error is that
// there are fewer honest flows than least.
func (t *Trial) Suggest(marks Marks, least int) ([]Suggestion, error) {
	honest, left := 0, 0
	for _, f := range t.list {
		switch {
		case f.Calls == 0:
		case isHonest(f, marks):
			honest++
		case marks[f.ID] == "":
			left++
		}
	}
	if honest < least {
		return nil, fmt.Errorf("the log has %d honest flows with calls, and limits need at least %d%s", honest, least, unjudgedLeftOut(left))
	}
	var out []Suggestion
	for i := range analyzer.Rules {
		id, row, set := analyzer.RuleID(i), &analyzer.Rules[i], t.Limits.Rules[i]
		// What a person decides has no threshold, and a row that is off is not turned on.
		if row.Fixed || set.Mode == rules.ModeOff || row.Lifts && !row.Armed {
			continue
		}
		s := Suggestion{Row: id, Setting: set}
		top, flows, unjudged := int64(0), 0, 0
		for _, f := range t.list {
			switch v := f.Most(id); {
			case v == 0:
			case isHonest(f, marks):
				top, flows = max(top, v+int64(t.lasts(id))), flows+1
			// A flow that was stopped and not judged may be either. It is left out, and that
			// is said.
			case marks[f.ID] == "":
				unjudged++
			}
		}
		// The stop lies one above: a flow may use all of the room.
		room := int64(math.Ceil(float64(top)*headroom)) + 1
		switch budget := row.Armed && isAmount(row.Unit); {
		case flows == 0:
			continue
		case set.Stop == rules.Off && (!budget || flows < least):
			continue
		case set.Stop == rules.Off, budget && flows >= least && room < set.Stop, room > set.Stop:
			s.Setting.Stop, s.Changed = max(2, room), true
			if set.Warn != rules.Off && set.Stop != rules.Off {
				s.Setting.Warn = max(top, int64(float64(set.Warn)/float64(set.Stop)*float64(room)))
			}
			s.Setting.Warn = warnBelow(s.Setting)
		}
		s.Evidence = fmt.Sprintf("at most %s in %d honest flows", amount(row.Unit, top), flows)
		if silence := t.lasts(id); silence > 0 {
			s.Evidence += fmt.Sprintf(", with the %d s of silence after which a flow is over", silence)
		}
		s.Evidence += unjudgedLeftOut(unjudged)
		out = append(out, s)
	}
	return out, nil
}

// unjudgedLeftOut says how many flows are left out that may be either; "" for none.
func unjudgedLeftOut(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 stopped flow that nobody has judged is left out"
	}
	return fmt.Sprintf("; %d stopped flows that nobody has judged are left out", n)
}

// warnBelow is the warning of a setting, held below its stop, since a warning at the stop would
// never be sent by itself.
func warnBelow(s rules.Setting) int64 {
	if s.Warn == rules.Off {
		return s.Warn
	}
	return min(s.Warn, s.Stop-1)
}

// isHonest is what people said of the flow, or else that no rule stopped it.
func isHonest(f *Flow, marks Marks) bool {
	switch marks[f.ID] {
	case Wrong:
		return true
	case Right:
		return false
	}
	return f.Stopped == nil
}

// isAmount reports whether the unit counts what is used up rather than what repeats.
func isAmount(u events.Unit) bool {
	switch u {
	case events.UnitCalls, events.UnitTokens, events.UnitUSD, events.UnitTurns, events.UnitMessages:
		return true
	}
	return false
}

// amount is a value for people.
//
// Money is in dollars, all else in its unit.
func amount(u events.Unit, v int64) string {
	if u == events.UnitUSD {
		return costs.Dollars(v, 2)
	}
	return fmt.Sprintf("%s %s", humanize.Comma(v), u)
}

// WriteLimits writes suggestions as a limits file and holds it to what reads such files.
//
// A comment on each line says what it stands on. That the file can be read again is checked
// before a byte is written: a redirect would leave half a limits file otherwise.
func WriteLimits(w io.Writer, profile string, list []Suggestion, forecasts forecast.Table) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "profile: %s\nrules:\n", profile)
	for _, s := range list {
		row := analyzer.FlowRow(s.Row)
		if !s.Changed {
			fmt.Fprintf(&b, "  # %s stays: %s\n", row.Name, s.Evidence)
			continue
		}
		fmt.Fprintf(&b, "  %s: %s # %s\n", row.Name, limitfile.Line(&row, &s.Setting), s.Evidence)
	}
	// No row changed: rules with nothing but comments below it would be no mapping.
	if !bytes.Contains(b.Bytes(), []byte("{")) {
		b.WriteString("  {}\n")
	}
	if len(forecasts) > 0 {
		b.Write(limitfile.ForecastSection(forecasts))
	}
	if _, err := limitfile.Parse("suggested", b.Bytes()); err != nil {
		return fmt.Errorf("what was made is no limits file, which is a fault of weir: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
