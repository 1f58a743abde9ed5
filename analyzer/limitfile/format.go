package limitfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// Format writes the whole limits as a file that Parse reads as the same limits,
// every rule spelled out. The limits must be valid. It is for people: what is the same as in
// the profile is written as well, so that a file stays as it is when a later profile differs.
func Format(l analyzer.Limits) []byte {
	base, err := unversioned(l.Profile)
	if err != nil {
		// Limits of a log may name a profile that this weir does not have.
		l.Profile, base = "none", none()
	}
	comment := "# The limits in force, version " + Version(&l) + ". What is not written is as the profile has it.\n" +
		"# 'weir limits schema' prints the JSON Schema for editors."
	// People who print limits are those who can change them.
	for _, r := range Remarks(&l) {
		comment += "\n# " + r.Path + ": " + r.Message + "; " + r.Hint + "."
	}
	doc := object{{"profile", word(l.Profile)}}
	return printYAML(comment, append(doc, describeLimits(&l, &base, false)...))
}

// FormatJSON writes the whole limits as one line of JSON that ParseJSON reads as
// the same limits, with the same version: what the log keeps when limits change. A version
// that l has is kept and not computed again, for it stands in verdicts already.
func FormatJSON(l analyzer.Limits) []byte {
	doc := object{{"version", l.Version}}
	// Limits that were made in code have none yet.
	if l.Version == "" {
		doc[0].value = Version(&l)
	}
	if l.Profile != "" {
		doc.put("profile", l.Profile)
	}
	base := none()
	return mustJSON(append(doc, describeLimits(&l, &base, true)...))
}

// mustJSON is the value as JSON; only objects of this package are given to it.
func mustJSON(v any) []byte {
	b, err := encode(v)
	if err != nil {
		panic("limitfile: " + err.Error()) // strings and numbers always have a form
	}
	return b
}

// describeLimits lists everything but the profile. Rules that are off altogether
// are left out if sparse, and so is what agents are judged by if no rule is about them. base
// is what the file changes: a value that is usual by itself is written where base has another
// one. Its form when sparse is what Version hashes, so a key that is added here has to be left
// out where it says nothing new, or the version of all limits changes.
func describeLimits(l, base *analyzer.Limits, sparse bool) object {
	// Sections stand in a fixed order, general ones first. Diff and Version rely on it.
	o := object{
		{"identity", word(identities[l.Identity])},
		{"flow", object{{"idle", duration(l.Flow.Idle)}, {"max_age", duration(l.Flow.MaxAge)}, {"user_starts", sourceList(l.Flow.UserStarts)}}},
		{"orders", describeOrders(&l.Order)},
		{"escalate", object{{"pair", integer(l.Escalate.Pair)}, {"agent", integer(l.Escalate.Agent)}, {"flow", integer(l.Escalate.Flow)}}},
		{"warn_only", sourceList(l.WarnOnly)},
	}
	// Sets are written in the order of the rows, whatever order a file gave.
	rules, scale, degraded, status, said := object{}, list{}, list{}, object{}, object{}
	for _, r := range analyzer.Rows() {
		// A row that was added later is off in old limits, so it is left out of what their
		// version hashes.
		if s := r.Setting(l); !r.Fixed && (!sparse || *s != r.Off()) {
			rules.put(r.Name, describeSetting(&r, s, r.Setting(base)))
		}
		if id, ok := r.Flow(); ok && l.Load.Scale.Has(id) {
			scale = append(scale, word(r.Name))
		}
		if id, ok := r.Flow(); ok && l.Degraded.Scale.Has(id) {
			degraded = append(degraded, word(r.Name))
		}
		if s := *r.HTTPStatus(l); s != 0 {
			status.put(r.Name, integer(int64(s)))
			// The profile says otherwise: the row's own has to be written out.
		} else if *r.HTTPStatus(base) != 0 {
			status.put(r.Name, integer(int64(r.Status)))
		}
		// As with the status: where the profile has other words, the row's own have to be
		// written out.
		if s := *r.TextOf(l); s != "" {
			said.put(r.Name, s)
		} else if *r.TextOf(base) != "" {
			said.put(r.Name, r.Text)
		}
	}
	o.put("rules", rules)
	if !sparse || l.Agents != none().Agents {
		o.put("agents", describeAgents(&l.Agents))
	}
	o.put("load", object{{"high", integer(l.Load.High)}, {"low", integer(l.Load.Low)}, {"percent", integer(l.Load.Percent)}, {"scale", scale}})
	if d := &l.Degraded; !sparse || *d != analyzer.DefaultDegraded() { // limits that say nothing of it keep their version
		o.put("degraded", object{{"after", duration(d.After)}, {"until", duration(d.Until)}, {"percent", integer(d.Percent)}, {"scale", degraded}})
	}
	describeLists(&o, l)
	if len(status) > 0 {
		o.put("http_status", status)
	}
	if len(said) > 0 {
		o.put("texts", said)
	}
	if len(l.Prices) > 0 {
		o.put("prices", describePrices(l.Prices))
	}
	if len(l.Budgets) > 0 {
		o.put("budgets", describeBudgets(l.Budgets))
	}
	if len(l.Subagents) > 0 {
		o.put("subagents", describeSubagents(l.Subagents))
	}
	if len(l.Forecast) > 0 {
		o.put("forecast", describeForecasts(l.Forecast))
	}
	return o
}

// describeLists writes the sections that only people fill in, where there is something in them.
func describeLists(o *object, l *analyzer.Limits) {
	if len(l.Tools) > 0 {
		tools := object{}
		for _, t := range l.Tools {
			tools.put(t.Name, describeTool(&t))
		}
		o.put("tools", tools)
	}
	if len(l.Overrides) > 0 {
		overrides := list{}
		for i := range l.Overrides {
			overrides = append(overrides, describeOverride(&l.Overrides[i], &l.Rules[l.Overrides[i].Rule]))
		}
		o.put("overrides", overrides)
	}
	if len(l.Exempt) > 0 {
		exempt := list{}
		for i := range l.Exempt {
			exempt = append(exempt, describeExemption(&l.Exempt[i]))
		}
		o.put("exempt", exempt)
	}
}

// describeOrders writes the section about orders.
func describeOrders(l *analyzer.OrderLimits) object {
	o := object{{"ttl", duration(l.TTL)}, {"grace", duration(l.Grace)}}
	if l.Hold != analyzer.DefaultHold { // limits that say nothing of it keep their version
		o.put("hold", duration(l.Hold))
	}
	return o
}

// describeSetting writes a setting so that it says everything, whatever it changes;
// from is what it changes.
func describeSetting(r *analyzer.Row, s, from *rules.Setting) object {
	var o object
	// Enforce is what a setting has that says no mode, so it is left out where the base enforces
	// as well.
	if s.Mode != rules.ModeEnforce || from.Mode != rules.ModeEnforce || r.ModeOnly() {
		o.put("mode", word(s.Mode.String()))
	}
	// It measures nothing, so nothing else can be said of it.
	if r.ModeOnly() {
		return o
	}
	o.put("warn", amount(r.Unit, s.Warn))
	// As the file gave it: a verdict prints the figure that stands in the file (decision 3).
	name := "stop"
	if s.Max {
		name = "max"
	}
	o.put(name, amount(r.Unit, s.Limit()))
	if s.Tell != 0 { // limits that say nothing of it keep their version
		o.put("tell", amount(r.Unit, s.Tell))
	}
	// Refusing is what every row does that says nothing, so only hold is written.
	if s.Hold {
		o.put("action", either(actionWords, s.Hold))
	}
	if s.Reserve != 0 {
		o.put("reserve", amount(r.Unit, s.Reserve))
	}
	switch r.Window {
	case "":
	case "seconds":
		o.put("window", amount(events.UnitSeconds, s.Window))
	// Windows of calls and gaps are counts.
	default:
		o.put("window", integer(s.Window))
	}
	// These are written also where they are as usual, because a row has them by its nature.
	if r.Blind {
		o.put("ignore_results", s.IgnoreResults)
	}
	if words := countWords(r); words != nil && (!r.Beginning || s.All || from.All) { // limits that slide keep their version
		o.put("count", either(words, s.All))
	}
	if r.Paced {
		o.put("paced", !s.Unpaced)
	}
	if s.Extends || from.Extends { // hard limits keep their version
		o.put("extend_on_progress", s.Extends)
	}
	return o
}

// Line returns a setting as a limits file may have it on one line, such as
// {warn: 3, stop: 6}. It is for suggestions, which people paste below rules.
func Line(r *analyzer.Row, s *rules.Setting) string {
	var parts []string
	for _, p := range describeSetting(r, s, &rules.Setting{}) {
		parts = append(parts, fmt.Sprintf("%s: %v", p.key, p.value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// describeAgents writes what all rules about agents share.
func describeAgents(a *agents.Limits) object {
	return object{
		{"report", duration(a.Report)}, {"patience", duration(a.Patience)}, {"watch", either(watchWords, a.WatchAll)}, {"own_notes", either(noteWords, a.BelieveNotes)},
		{"recovery", either(recoveryWords, a.Recover)}, {"resume_within", duration(a.ResumeWithin)}, {"review_within", duration(a.ReviewWithin)},
		{"safe_coherence", share(a.SafeCoherence)}, {"safe_risk", share(a.SafeRisk)},
	}
}

// describeTool writes what a tool is exempt from; nothing that is usual.
func describeTool(t *analyzer.ToolLimits) object {
	var o object
	if len(t.IgnoreArgs) > 0 {
		args := list{}
		for _, a := range t.IgnoreArgs {
			args = append(args, a)
		}
		o.put("ignore_args", args)
	}
	// What is false is not written: arrange has dropped tools that say nothing.
	if t.Exempt {
		o.put("exempt", true)
	}
	return o
}

// describeOverride writes the scope first, then the rule: flatten relies on the order.
func describeOverride(x *analyzer.Override, from *rules.Setting) object {
	r := analyzer.FlowRow(x.Rule)
	o := object{{string(x.Scope), x.ID}, {"rule", word(r.Name)}}
	o = append(o, describeSetting(&r, &x.Setting, from)...)
	return append(o, pair{"reason", x.Reason}, pair{"expires", timeText(x.Expires)})
}

// describeExemption writes the scope first, then the mode: flatten relies on the order.
func describeExemption(x *rules.Exemption) object {
	tags, names := list{}, list{}
	for _, t := range x.Tags {
		tags = append(tags, t)
	}
	for _, n := range x.Rules {
		names = append(names, word(n))
	}
	o := object{{"tags", tags}, {"mode", word(x.Mode.String())}, {"rules", names}, {"reason", x.Reason}}
	if x.Expires != 0 {
		o.put("expires", timeText(x.Expires))
	}
	return o
}

// timeText writes a point in time as people do who mean a second.
func timeText(at events.Stamp) word {
	return word(strings.Replace(events.RFC3339(at).String(), ".000Z", "Z", 1))
}

// duration writes a length of time as limits files do.
func duration(d time.Duration) word { return word(events.DurationText(d)) }

// integer writes a whole number.
func integer(v int64) number { return number(strconv.FormatInt(v, 10)) }

// amount writes a threshold as reader.amount reads it.
func amount(unit events.Unit, v int64) any {
	s := Amount(unit, v)
	// Both are text in JSON and need no quotes in YAML.
	if v == rules.Off || unit == events.UnitSeconds {
		return word(s)
	}
	return number(s)
}

// sourceList writes a bit set of 1<<CorrelationSource in the order of the sources.
func sourceList(bits uint16) list {
	out := list{}
	for i, name := range correlationSources() {
		if bits>>i&1 == 1 {
			out = append(out, word(name))
		}
	}
	return out
}
