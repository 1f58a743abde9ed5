package limitfile_test

import (
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// FuzzParse holds for any bytes: what is refused is refused with problems that can
// be shown, and what is accepted prints, records and reads back as the same limits.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"refused.txt", "accepted.txt", "import.txt"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "\n====\n") {
			input, _, _ := strings.Cut(c, "----\n")
			f.Add([]byte(input))
		}
	}
	for _, name := range limitfile.Profiles() {
		l, err := limitfile.Profile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(limitfile.Format(l))
		f.Add(limitfile.FormatJSON(l))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := limitfile.Parse("limits.yaml", data); err != nil {
			checkProblems(t, err)
		} else {
			checkLaws(t, l)
		}
		if l, err := limitfile.ParseJSON("record", data); err != nil {
			checkProblems(t, err)
		} else if back, err := limitfile.ParseJSON("record", limitfile.FormatJSON(l)); err != nil || !reflect.DeepEqual(back, l) {
			t.Errorf("recorded and read again: %v\n%+v\n%+v", err, l, back)
		}
		out, err := limitfile.Import("source", data)
		if err != nil {
			checkProblems(t, err)
		} else if _, err := limitfile.Parse("imported", out); err != nil {
			t.Errorf("imported, but refused: %v\n%s", err, out)
		}
	})
}

// FuzzFormat holds for any limits that the analyzer finds valid.
func FuzzFormat(f *testing.F) {
	for seed := range uint64(32) {
		f.Add(seed, "search", "why")
	}
	f.Add(uint64(1), "# :{}[]&*!|>'\"%@`", "off")
	f.Add(uint64(2), "null", "- a: b")
	f.Add(uint64(3), "schöner\\tool", "1_000")
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, seed uint64, name, reason string) {
		l := anyLimits(rand.New(rand.NewPCG(seed, 0)), name, reason)
		if limitfile.Validate(&l) != nil {
			return
		}
		l.Version = limitfile.Version(&l)
		checkLaws(t, l)
		if printed := string(limitfile.Format(l)); bySchema(schema, printed) != "the schema accepts it" {
			t.Errorf("the schema refuses\n%s", printed)
		}
	})
}

// The limits that FuzzFormat makes have to be valid often enough to say something.
func TestAnyLimitsAreOftenValid(t *testing.T) {
	valid := 0
	for seed := range uint64(200) {
		l := anyLimits(rand.New(rand.NewPCG(seed, 0)), "search", "why")
		if limitfile.Validate(&l) == nil {
			valid++
		}
	}
	if valid < 60 {
		t.Errorf("%d of 200 limits are valid", valid)
	}
}

// anyLimits returns limits that are valid more often than not.
func anyLimits(r *rand.Rand, name, reason string) analyzer.Limits {
	names := limitfile.Profiles()
	l, err := limitfile.Profile(names[r.IntN(len(names))])
	if err != nil {
		panic(err)
	}
	setting := func(row analyzer.Row) rules.Setting {
		s := rules.Setting{Mode: rules.Mode(r.IntN(4)), Warn: rules.Off, Stop: rules.Off, Max: !row.Silence && r.IntN(2) == 0}
		if row.ModeOnly() {
			return rules.Setting{Mode: s.Mode}
		}
		if least, widest, _ := row.Windows(); widest > 0 {
			s.Window = least + r.Int64N(widest-least+1)
		}
		s.IgnoreResults = row.Name == "repetition_blind" && r.IntN(2) == 0
		s.All = row.Name == "agent_message_rate" && r.IntN(2) == 0
		least, most := int64(1), int64(0)
		if most, _ = row.Reach(&s); row.Silence {
			least = 120
		}
		if r.IntN(4) > 0 && !row.WarnsOnly {
			s.Stop = least + r.Int64N(most-least+1)
		}
		if most = min(most, s.Limit()); r.IntN(4) > 0 && most >= least {
			s.Warn = least + r.Int64N(most-least+1)
		}
		return s
	}
	for _, row := range analyzer.Rows() {
		if row.Fixed {
			continue
		}
		if r.IntN(2) == 0 {
			*row.Setting(&l) = setting(row)
		}
		if row.Status != 0 && r.IntN(8) == 0 {
			*row.HTTPStatus(&l) = int16(400 + r.IntN(200))
		}
		if row.Text != "" && r.IntN(8) == 0 {
			*row.TextOf(&l) = "{head}" + strings.Repeat("so ", 1+r.IntN(9)) + "{n}"
		}
		if id, ok := row.Flow(); ok && r.IntN(8) == 0 {
			l.Load.Scale = l.Load.Scale.With(id)
		}
	}
	if r.IntN(2) == 0 {
		a := &l.Agents
		a.Report, a.Patience = time.Duration(r.Int64N(60_001))*time.Millisecond, time.Duration(1+r.IntN(10_000))*time.Second
		a.WatchAll, a.Recover = r.IntN(2) == 0, r.IntN(2) == 0
		a.ResumeWithin, a.ReviewWithin = time.Duration(1+r.IntN(10_000))*time.Second, time.Duration(1+r.IntN(10_000))*time.Second
		a.SafeCoherence, a.SafeRisk = r.Int64N(101), r.Int64N(101)
	}
	l.Identity = analyzer.Identity(r.IntN(2))
	l.Flow.Idle = time.Duration(1+r.Int64N(10_000)) * time.Second / time.Duration(1+9*r.IntN(2))
	l.Flow.MaxAge = l.Flow.Idle + time.Duration(r.Int64N(1_000_000))*time.Millisecond
	l.Flow.UserStarts, l.WarnOnly = uint16(r.IntN(256)), uint16(r.IntN(256))
	l.Order.TTL = time.Duration(1+r.IntN(10_000)) * time.Second
	l.Order.Grace = l.Order.TTL / time.Duration(1+r.IntN(9)) / time.Millisecond * time.Millisecond
	l.Escalate = analyzer.Escalation{Pair: r.Int64N(4), Agent: 4 * r.Int64N(2), Flow: 9 * r.Int64N(2)}
	if r.IntN(2) == 0 {
		l.Load.High, l.Load.Low, l.Load.Percent = 100+r.Int64N(1000), 1+r.Int64N(100), 1+r.Int64N(100)
	}
	for i := range r.IntN(3) {
		t := analyzer.ToolLimits{Name: name + strings.Repeat("'", i), Exempt: r.IntN(2) == 0}
		for j := range r.IntN(3) {
			t.IgnoreArgs = append(t.IgnoreArgs, reason+strings.Repeat(".", j))
		}
		l.Tools = append(l.Tools, t)
	}
	for range r.IntN(4) {
		scopes := []events.ScopeKind{events.ScopeProject, events.ScopeAgent, events.ScopeTool, events.ScopeFlow}
		id := analyzer.RuleID(r.IntN(int(analyzer.RuleCount)))
		if id == analyzer.RuleOperator {
			continue
		}
		l.Overrides = append(l.Overrides, analyzer.Override{Scope: scopes[r.IntN(4)], ID: name, Rule: id, Setting: setting(analyzer.FlowRow(id)), Reason: reason, Expires: events.Stamp(1 + r.Int64N(1<<42))})
	}
	return l
}
