package limitfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/analyzer/strictyaml"
	"weir/events"
)

// Parse reads a limits file: its profile with what the file changes. The name is
// for messages alone. A file with anything wrong is refused with a *Problems that
// lists all of it. The limits come with their Version, and pass Validate.
func Parse(name string, data []byte) (analyzer.Limits, error) {
	return parse(newReader(name), data)
}

// ParseJSON reads what FormatJSON wrote: whole limits in one document, as the log
// keeps them. Parse fills gaps from a profile; here, a rule that the document does
// not name is off. A log that was judged before a rule existed is thus judged without it
// when it is folded again. The version is the one in the document, because verdicts
// contain it already. It checks as strictly as Parse: a record of the log may be
// damaged.
func ParseJSON(name string, data []byte) (analyzer.Limits, error) {
	r := newReader(name)
	r.recorded = true
	return parse(r, data)
}

// parse reads one document and returns limits only where nothing is wrong.
func parse(r *reader, data []byte) (analyzer.Limits, error) {
	var l analyzer.Limits
	if root := document(data, 0, &r.problems); root != nil {
		r.plain(root)
		l = r.limits(root)
	}
	if err := r.problems.Err(); err != nil {
		return analyzer.Limits{}, err
	}
	return l, nil
}

// In the order in which they are listed to who mistypes one.
var topKeys = []string{"profile", "identity", "flow", "orders", "escalate", "warn_only", "rules", "agents", "tools", "load", "degraded", "overrides", "exempt", "http_status", "texts", "prices", "budgets", "subagents", "forecast", "$schema"}

// limits reads the whole file. Sections are read in an order of their own, because
// overrides change what rules say and rules change what the profile says. After each problem it
// goes on with the value of the profile, so that all problems are reported at once. The
// caller then discards the limits.
func (r *reader) limits(root *yaml.Node) analyzer.Limits {
	keys := topKeys
	if r.recorded {
		// A person must not write one: it is the hash of the rest.
		keys = append(slices.Clone(keys), "version")
	}
	top := r.fields("", root, keys...)
	// Everything below changes these limits, and what the file does not say stays as it is.
	l := r.base(top["profile"])
	r.flowSections(top, &l)
	// Before overrides, which begin from what the rules of this file say.
	for key, v := range r.pairs("rules", top["rules"]) {
		if row, ok := r.rule(join("rules", key.Value), key); ok {
			r.setting("rules."+key.Value, &row, v, row.Setting(&l))
		}
	}
	r.agents(top["agents"], &l.Agents)
	r.loads(top, &l)
	l.Tools = r.tools(top["tools"], l.Tools)
	for i, n := range r.items("overrides", top["overrides"]) {
		l.Overrides = append(l.Overrides, r.override(index("overrides", i), n, &l.Rules))
	}
	for i, n := range r.items("exempt", top["exempt"]) {
		l.Exempt = append(l.Exempt, r.exemption(index("exempt", i), n))
	}
	r.answers(top, &l)
	l.Prices = r.prices(top["prices"])
	l.Budgets = r.budgets(top["budgets"])
	l.Subagents = r.subagents(top["subagents"])
	l.Forecast = r.forecasts(top["forecast"])
	r.validate(&l)
	// After validate, which has put equal limits into one form.
	l.Version = Version(&l)
	if v, ok := r.text("version", top["version"]); ok {
		// It would stand in verdicts, where a hash is expected.
		if _, err := events.ParseHash(v); err != nil {
			r.fail(top["version"], "version", "the record was not written by weir", "is no hash")
		}
		l.Version = v
	}
	return l
}

// flowSections reads what is about flows, orders and attempts.
func (r *reader) flowSections(top map[string]*yaml.Node, l *analyzer.Limits) {
	// Editors read it. Here it only has to be text.
	r.text("$schema", top["$schema"])
	if i, ok := r.choice("identity", top["identity"], identities); ok {
		l.Identity = analyzer.Identity(i)
	}
	f := r.fields("flow", top["flow"], "idle", "max_age", "user_starts")
	r.duration("flow.idle", f["idle"], &l.Flow.Idle)
	r.duration("flow.max_age", f["max_age"], &l.Flow.MaxAge)
	r.sources("flow.user_starts", f["user_starts"], &l.Flow.UserStarts)
	f = r.fields("orders", top["orders"], "ttl", "grace", "hold")
	r.duration("orders.ttl", f["ttl"], &l.Order.TTL)
	r.duration("orders.grace", f["grace"], &l.Order.Grace)
	r.duration("orders.hold", f["hold"], &l.Order.Hold)
	f = r.fields("escalate", top["escalate"], "pair", "agent", "flow")
	r.integer("escalate.pair", f["pair"], &l.Escalate.Pair)
	r.integer("escalate.agent", f["agent"], &l.Escalate.Agent)
	r.integer("escalate.flow", f["flow"], &l.Escalate.Flow)
	r.sources("warn_only", top["warn_only"], &l.WarnOnly)
}

// loads reads what is judged by while weir is busy, or behind.
func (r *reader) loads(top map[string]*yaml.Node, l *analyzer.Limits) {
	f := r.fields("load", top["load"], "high", "low", "percent", "scale")
	r.integer("load.high", f["high"], &l.Load.High)
	r.integer("load.low", f["low"], &l.Load.Low)
	r.integer("load.percent", f["percent"], &l.Load.Percent)
	if n := f["scale"]; n != nil {
		l.Load.Scale = r.ruleSet("load.scale", n)
	}
	f = r.fields("degraded", top["degraded"], "after", "until", "percent", "scale")
	r.duration("degraded.after", f["after"], &l.Degraded.After)
	r.duration("degraded.until", f["until"], &l.Degraded.Until)
	r.integer("degraded.percent", f["percent"], &l.Degraded.Percent)
	if n := f["scale"]; n != nil {
		l.Degraded.Scale = r.ruleSet("degraded.scale", n)
	}
}

// answers reads the statuses and texts of rules, also of those of which nothing else can be set.
func (r *reader) answers(top map[string]*yaml.Node, l *analyzer.Limits) {
	for key, v := range r.pairs("http_status", top["http_status"]) {
		if row, ok := r.anyRule(join("http_status", key.Value), key); ok {
			// Also for rows of which nothing else can be set: the status of a person's stop may
			// be chosen.
			set := row.HTTPStatus(l)
			status := int64(*set)
			r.integer("http_status."+key.Value, v, &status)
			// Any number above is refused as 1000 is, and fits.
			*set = int16(min(status, 1000))
		}
	}
	for key, v := range r.pairs("texts", top["texts"]) {
		if row, ok := r.anyRule(join("texts", key.Value), key); ok {
			if text, ok := r.text("texts."+key.Value, v); ok {
				*row.TextOf(l) = text
			}
		}
	}
}

// identities are the words for analyzer.Identity, in the order of its values.
var identities = []string{"session", "agent"}

// base returns the limits that the file changes. A file without a profile changes the balanced
// one; a record of the log changes limits that are all off.
func (r *reader) base(n *yaml.Node) analyzer.Limits {
	name, ok := r.text("profile", n)
	// Its figures are all written out, so that a later weir with other defaults judges the same
	// (decision 47).
	if r.recorded {
		l := none()
		l.Profile = name
		return l
	}
	if !ok {
		return analyzer.Balanced()
	}
	// Its version is not that of a file which changes it.
	l, err := unversioned(name)
	if err != nil {
		r.fail(n, "profile", meant(name, Profiles()), "there is no profile %s", strictyaml.Quote(name))
		return analyzer.Balanced()
	}
	return l
}

// agents reads what all rules about agents share.
func (r *reader) agents(n *yaml.Node, a *agents.Limits) {
	f := r.fields("agents", n, "report", "patience", "watch", "own_notes", "recovery", "resume_within", "review_within", "safe_coherence", "safe_risk")
	r.duration("agents.report", f["report"], &a.Report)
	r.duration("agents.patience", f["patience"], &a.Patience)
	r.either("agents.watch", f["watch"], watchWords, &a.WatchAll)
	r.either("agents.own_notes", f["own_notes"], noteWords, &a.BelieveNotes)
	r.either("agents.recovery", f["recovery"], recoveryWords, &a.Recover)
	r.duration("agents.resume_within", f["resume_within"], &a.ResumeWithin)
	r.duration("agents.review_within", f["review_within"], &a.ReviewWithin)
	r.share("agents.safe_coherence", f["safe_coherence"], &a.SafeCoherence)
	r.share("agents.safe_risk", f["safe_risk"], &a.SafeRisk)
}

// rule finds the rule that a key or a value names. It refuses the rows of which nothing can be
// set.
func (r *reader) rule(path string, n *yaml.Node) (analyzer.Row, bool) {
	row, ok := r.anyRule(path, n)
	if ok && row.Fixed {
		hint := "a person's stop always holds; delete it"
		if row.OfAgents() {
			hint = "write budgets in the list budgets"
		}
		r.fail(n, path, hint, "has no limits")
		return row, false
	}
	return row, ok
}

// flowRule finds the rule about flows that a value names. The hint says what to do instead
// where the rule is about agents.
func (r *reader) flowRule(path, hint string, n *yaml.Node) (analyzer.RuleID, bool) {
	// The refusal of rows about agents says where they can be changed.
	row, ok := r.rule(path, n)
	if !ok {
		return 0, false
	}
	id, ok := row.Flow()
	if !ok {
		r.fail(n, path, hint, "%s is about agents over all flows", row.Name)
	}
	return id, ok
}

// anyRule finds the rule that a key or a value names, also one of which nothing can be set. A
// reason code is no name, for several rules may share it; the hint then names those.
func (r *reader) anyRule(path string, n *yaml.Node) (analyzer.Row, bool) {
	if !r.scalar(path, "the name of a rule", n) {
		return analyzer.Row{}, false
	}
	if row, ok := analyzer.RowNamed(n.Value); ok {
		return row, true
	}
	// A near name is the better hint; a reason code that is known is better still.
	names := ruleNames()
	hint := meant(n.Value, names)
	var behind []string
	for _, row := range analyzer.Rows() {
		if string(row.Reason) == n.Value {
			behind = append(behind, strconv.Quote(row.Name))
		}
	}
	// People copy the reason code that they see in a verdict.
	if len(behind) > 0 {
		hint = fmt.Sprintf("did you mean rule %s (reason %s)?", strings.Join(behind, " or "), n.Value)
	}
	if hint == "" {
		hint = "'weir rules ls' lists them"
	}
	r.fail(n, path, hint, "there is no rule %s", strictyaml.Quote(n.Value))
	return analyzer.Row{}, false
}

// ruleNames lists the names of both tables.
func ruleNames() []string {
	var names []string
	for _, row := range analyzer.Rows() {
		names = append(names, row.Name)
	}
	return names
}

// ruleSet reads a list of rules about flows; a rule that is listed twice is a problem.
func (r *reader) ruleSet(path string, n *yaml.Node) (set analyzer.RuleSet) {
	for i, c := range r.items(path, n) {
		id, ok := r.flowRule(index(path, i), "only limits of flows shrink", c)
		if ok && set.Has(id) {
			r.fail(c, index(path, i), "keep one of them", "%s is listed twice", c.Value)
		}
		if ok {
			set = set.With(id)
		}
	}
	return set
}

// tools reads the section about tools. A tool that the profile has as well is replaced by what
// the file says, not added to.
func (r *reader) tools(n *yaml.Node, tools []analyzer.ToolLimits) []analyzer.ToolLimits {
	for key, v := range r.pairs("tools", n) {
		path := join("tools", key.Value)
		f := r.fields(path, v, "ignore_args", "exempt")
		t := analyzer.ToolLimits{Name: key.Value}
		for i, c := range r.items(path+".ignore_args", f["ignore_args"]) {
			if a, ok := r.text(index(path+".ignore_args", i), c); ok {
				t.IgnoreArgs = append(t.IgnoreArgs, a)
			}
		}
		r.boolean(path+".exempt", f["exempt"], &t.Exempt)
		// The slice may be that of the profile, which is made anew for each file.
		tools = slices.DeleteFunc(tools, func(o analyzer.ToolLimits) bool { return o.Name == t.Name })
		tools = append(tools, t)
	}
	return tools
}

// override reads a change of one rule for one scope. What it does not say is as
// the rule has it for everybody. It begins with the setting that the file gives the rule.
func (r *reader) override(path string, n *yaml.Node, rules *[analyzer.RuleCount]rules.Setting) (o analyzer.Override) {
	scopes := []string{"project", "agent", "tool", "flow"}
	// The keys of a setting stand beside the scope, not in a mapping of their own.
	f := r.fields(path, n, append(append([]string{"rule", "reason", "expires"}, scopes...), settingKeys...)...)
	for _, name := range scopes {
		v := f[name]
		if v == nil {
			continue
		}
		// One with two scopes could mean either of them or both.
		if o.Scope != events.ScopeUnset {
			r.fail(v, path+"."+name, "write two overrides", "%s is given as well; an override is for one scope", o.Scope)
			continue
		}
		o.Scope = events.ScopeKind(name)
		o.ID, _ = r.text(path+"."+name, v)
	}
	o.Reason, _ = r.text(path+".reason", f["reason"])
	o.Expires = r.time(path+".expires", f["expires"])
	v := f["rule"]
	if v == nil {
		if n.Kind == yaml.MappingNode {
			r.fail(n, path+".rule", "name the rule that it changes", "is missing")
		}
		return o
	}
	id, ok := r.flowRule(path+".rule", "overrides change rules about flows; change this one under rules, for everybody", v)
	if !ok {
		return o
	}
	// What the override does not say is as it is for everybody.
	o.Rule, o.Setting = id, rules[id]
	row := analyzer.FlowRow(id)
	r.row(path, &row, f, &o.Setting)
	// It would be an override without an effect.
	if !slices.ContainsFunc(settingKeys, func(k string) bool { return f[k] != nil }) {
		r.fail(n, path, "say what is different: "+strings.Join(settingKeys[:4], ", "), "changes nothing")
	}
	return o
}

// exemption reads what some tags are exempt from.
func (r *reader) exemption(path string, n *yaml.Node) (x rules.Exemption) {
	f := r.fields(path, n, "tags", "rules", "mode", "reason", "expires")
	for i, c := range r.items(path+".tags", f["tags"]) {
		if tag, ok := r.text(index(path+".tags", i), c); ok {
			x.Tags = append(x.Tags, tag)
		}
	}
	for i, c := range r.items(path+".rules", f["rules"]) {
		if row, ok := r.rule(index(path+".rules", i), c); ok {
			x.Rules = append(x.Rules, row.Name)
		}
	}
	x.Mode = rules.ModeOff
	if i, ok := r.choice(path+".mode", f["mode"], modes()); ok {
		x.Mode, _ = rules.ParseMode(modes()[i])
	}
	x.Reason, _ = r.text(path+".reason", f["reason"])
	x.Expires = r.time(path+".expires", f["expires"])
	return x
}

// settingKeys are the keys of a setting, the usual ones first. An override takes all of them,
// too.
var settingKeys = []string{"warn", "stop", "max", "mode", "tell", "reserve", "action", "window", "ignore_results", "paced", "count", "extend_on_progress"}

// setting reads the value of a rule: a mapping, or in short a mode or a number. A mode alone
// leaves the figures as they are. A number alone is the limit, and drops a warning that could
// no longer come.
func (r *reader) setting(path string, row *analyzer.Row, n *yaml.Node, s *rules.Setting) {
	if n.Kind != yaml.ScalarNode {
		r.row(path, row, r.fields(path, n, settingKeys...), s)
		return
	}
	// off is a mode here and not a threshold.
	if m, ok := rules.ParseMode(n.Value); ok {
		s.Mode = m
		return
	}
	if row.ModeOnly() {
		r.fail(n, path, meant(n.Value, modes()), "want a mapping or a mode, got %s", describe(n))
		return
	}
	v, ok := parseAmount(n, row.Unit)
	if !ok {
		r.fail(n, path, meant(n.Value, modes()), "want a mapping, a mode or a number, got %s", describe(n))
		return
	}
	if row.WarnsOnly {
		s.Warn = v
		return
	}
	// The figure is kept as a threshold, and how it was written beside it (decision 3).
	s.Max = bareIsMax(row)
	s.Stop = v
	if s.Max {
		s.Stop++
	}
	warnBelow(s)
}

// bareIsMax reports whether a bare number for the rule is the highest allowed value,
// as it is for budgets, or else the value at which the rule stops. People say "at most 100
// calls" of budgets and "at the third round" of patterns (decision 3).
func bareIsMax(row *analyzer.Row) bool { return row.Armed || row.Default.Max }

// row reads the keys of a setting. Keys that are not there leave s as it is.
func (r *reader) row(path string, row *analyzer.Row, f map[string]*yaml.Node, s *rules.Setting) {
	if i, ok := r.choice(path+".mode", f["mode"], modes()); ok {
		s.Mode, _ = rules.ParseMode(modes()[i])
	}
	if row.ModeOnly() {
		for _, key := range settingKeys {
			if n := f[key]; n != nil && key != "mode" {
				r.fail(n, path+"."+key, "write a mode alone: "+strings.Join(modes(), ", "), "means nothing here")
			}
		}
		return
	}
	// A key that is not there gives no value, and leaves what the base says.
	if v, ok := r.amount(path+".stop", f["stop"], row.Unit); ok {
		s.Stop, s.Max = v, false
	}
	if n := f["max"]; n != nil && f["stop"] != nil {
		r.fail(n, path+".max", "max is the highest allowed value, stop the value at which it stops: keep one of them", "stop is given as well")
	} else if v, ok := r.amount(path+".max", n, row.Unit); ok {
		s.Stop, s.Max = v, true
		if v != rules.Off {
			// Inside there is one threshold, at which it stops.
			s.Stop++
		}
	}
	if v, ok := r.amount(path+".warn", f["warn"], row.Unit); ok {
		s.Warn = v
		// The profile's warning was meant for the profile's stop.
	} else if f["warn"] == nil && (f["stop"] != nil || f["max"] != nil) {
		warnBelow(s)
	}
	if v, ok := r.amount(path+".tell", f["tell"], row.Unit); ok {
		// Off is 0 for the remaining budget: it is never reported.
		if s.Tell = v; v == rules.Off {
			s.Tell = 0
		}
	}
	r.either(path+".action", f["action"], actionWords, &s.Hold)
	if v, ok := r.amount(path+".reserve", f["reserve"], row.Unit); ok {
		if s.Reserve = v; v == rules.Off {
			s.Reserve = 0
		}
	}
	r.window(path+".window", row, f["window"], s)
	if n, words := f["count"], countWords(row); n != nil && words == nil {
		r.fail(n, path+".count", "only "+analyzer.RowsThat((*analyzer.Row).ChoosesCount)+" choose what they count", "means nothing here")
	} else {
		r.either(path+".count", n, words, &s.All)
	}
	r.boolean(path+".ignore_results", f["ignore_results"], &s.IgnoreResults)
	// The file says what holds, the setting what does not, so that its zero value is the usual
	// one.
	paced := !s.Unpaced
	r.boolean(path+".paced", f["paced"], &paced)
	s.Unpaced = !paced
	// A limit in a file is a hard one unless the file says otherwise.
	if f["warn"] != nil || f["stop"] != nil || f["max"] != nil {
		s.Extends = false
	}
	r.boolean(path+".extend_on_progress", f["extend_on_progress"], &s.Extends)
}

// window reads the window of a setting, which may not be there.
func (r *reader) window(path string, row *analyzer.Row, n *yaml.Node, s *rules.Setting) {
	switch {
	case n == nil:
	// An unused window would be a limit that is silently not there.
	case row.Window == "":
		r.fail(n, path, "delete the key", "the rule has no window")
	// A window of time is written as a duration.
	case row.Window == "seconds":
		d := time.Duration(s.Window) * time.Second
		r.duration(path, n, &d)
		if d%time.Second != 0 {
			r.fail(n, path, "", "want whole seconds, got %s", describe(n))
		}
		s.Window = int64(d / time.Second)
	default:
		r.integer(path, n, &s.Window)
	}
}

// warnBelow drops a warning that the file did not give and that could no longer
// come before the stop. It would be refused as a warning above its stop, which the person has
// not written.
func warnBelow(s *rules.Setting) {
	if s.Warn != rules.Off && s.Warn > s.Limit() {
		s.Warn = rules.Off
	}
}

// modes lists the modes from the weakest on. The order is that of help and hints, not of the
// values.
func modes() []string {
	return []string{rules.ModeOff.String(), rules.ModeShadow.String(), rules.ModeWarn.String(), rules.ModeEnforce.String()}
}

// validate adds what is wrong with the limits as a whole, at the lines that say so. What only
// follows from a reported problem is left out.
func (r *reader) validate(l *analyzer.Limits) {
	found := r.problems.List
	for _, q := range check(l) {
		if !follows(q.Path, found) {
			at := r.place(q.Path)
			q.Line, q.Column = at.line, at.column
			r.problems.Add(q)
		}
	}
}
