package limitfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/events"
)

// Bounds of what limits may say.
const (
	maxThreshold = rules.MaxThreshold
	maxDuration  = rules.MaxDuration
	maxCount     = rules.MaxCount
	// Hops per minute. It only keeps sums of the fold from running over.
	maxLoad = 1_000_000_000_000
	// No threshold of silence may be below twice as much.
	maxReport  = time.Hour // a flow reports at least once in this time
	maxListed  = 256       // tools, overrides
	maxIgnored = 64        // arguments of one tool
	maxName    = 256       // bytes of an id or a name
	maxReason  = 1024      // bytes of the reason of an override
	maxText    = 512       // bytes of the text about a rule for people
)

// Validate returns all that is wrong with the limits at once, as *Problems; a path is the
// place as a file names it, such as rules.max_turns.warn or overrides[2].expires. Limits
// without a fault are put into the one order in which equal limits are equal values: tools
// and overrides are sorted (project before agent before tool before flow, so that the
// narrower scope wins), and what only repeats a default is dropped. The slices of l are
// replaced, never written to. An engine must be made of limits that passed; who changes limits
// in code calls it again.
func Validate(l *analyzer.Limits) error {
	if problems := check(l); len(problems) > 0 {
		return &Problems{Name: "limits", List: problems}
	}
	return nil
}

// check is Validate for a reader, who knows at which line each path stands. It puts l in order
// only where nothing is wrong.
func check(l *analyzer.Limits) []Problem {
	var c checker
	c.general(l)
	// Rows of both tables, under the one section that files have.
	for _, r := range analyzer.Rows() {
		c.setting("rules."+r.Name, &r, r.Setting(l))
		c.status("http_status."+r.Name, &r, *r.HTTPStatus(l))
		c.words("texts."+r.Name, &r, *r.TextOf(l))
	}
	c.agents(&l.Agents)
	c.load(&l.Load)
	c.degraded(&l.Degraded)
	c.tools(l.Tools)
	c.overrides(l.Overrides)
	c.exempt(l.Exempt)
	c.budgets(l)
	c.subagents(l.Subagents)
	c.prices(l.Prices)
	c.forecasts(l.Forecast)
	if len(c.problems) == 0 {
		arrange(l)
	}
	return c.problems
}

// Remarks are what people should know of limits that are not wrong. They refuse nothing;
// people see them beside the limits.
func Remarks(l *analyzer.Limits) (out []Problem) {
	for _, r := range analyzer.Rows() {
		if s := r.Setting(l); r.Smells != 0 && !s.Mute() && s.Stop != rules.Off && s.Limit() > r.Smells {
			out = append(out, Problem{Path: "rules." + r.Name, Message: fmt.Sprintf("a limit above %d is a design smell", r.Smells),
				Hint: "have agents that are deep in a chain do the work, or report back to whom they came from"})
		}
	}
	return out
}

// checker gathers what is wrong; unlike a reader it knows paths and no lines.
type checker struct{ problems []Problem }

// fail notes a fault at a path. The hint says how to go on and may be empty where the message
// does.
func (c *checker) fail(path, hint, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// tooMany reports whether a list is longer than it may be, and notes that as a fault. The text is about both
// numbers.
func (c *checker) tooMany(path, hint, text string, n, most int) bool {
	if n > most {
		c.fail(path, hint, text, n, most)
	}
	return n > most
}

// general checks what is about all rules. Each fault says what would become of it, since
// figures that are good alone may make no sense together.
func (c *checker) general(l *analyzer.Limits) {
	if l.Profile != "" {
		c.text("profile", l.Profile, maxName)
	}
	// What a file cannot say may still stand in limits that were made in code.
	if l.Identity > analyzer.ByAgent {
		c.fail("identity", "write session or agent", "%d is no identity", l.Identity)
	}
	// A bit for each source there is.
	const sources = 1<<(events.CorrelationPrincipal+1) - 1
	if l.Flow.UserStarts&^sources != 0 {
		c.fail("flow.user_starts", "", "names a correlation source that does not exist")
	}
	if l.WarnOnly&^sources != 0 {
		c.fail("warn_only", "", "names a correlation source that does not exist")
	}
	c.duration("flow.idle", l.Flow.Idle, time.Second)
	c.duration("flow.max_age", l.Flow.MaxAge, time.Second)
	if l.Flow.Idle > l.Flow.MaxAge {
		c.fail("flow.idle", "make idle the shorter one", "%s is longer than max_age, %s: no episode would end by silence", events.DurationText(l.Flow.Idle), events.DurationText(l.Flow.MaxAge))
	}
	c.duration("orders.ttl", l.Order.TTL, time.Second)
	c.duration("orders.grace", l.Order.Grace, 0)
	c.duration("orders.hold", l.Order.Hold, time.Second)
	// The default hold is not compared with a short max_age where no rule holds: the file does
	// not contain it.
	if l.Order.Hold > l.Flow.MaxAge && (l.Order.Hold != analyzer.DefaultHold || slices.ContainsFunc(l.Rules[:], func(s rules.Setting) bool { return s.Hold })) {
		c.fail("orders.hold", "let it wait for max_age at most", "%s is longer than flow.max_age, %s: the flow would be forgotten while it waits", events.DurationText(l.Order.Hold), events.DurationText(l.Flow.MaxAge))
	}
	if l.Order.Grace > l.Order.TTL {
		c.fail("orders.grace", "make grace the shorter one", "%s is longer than ttl, %s: no call would ever count as defiance", events.DurationText(l.Order.Grace), events.DurationText(l.Order.TTL))
	}
	steps := [...]struct {
		path string
		n    int64
	}{{"escalate.pair", l.Escalate.Pair}, {"escalate.agent", l.Escalate.Agent}, {"escalate.flow", l.Escalate.Flow}}
	// The last step that is on; steps that are off are passed over.
	narrow := 0
	for i, s := range steps {
		// The counter of attempts stops at maxCount, so a step above it would never
		// come.
		if s.n < 0 || s.n >= maxCount {
			c.fail(s.path, "0 means never", "%d is no number of attempts from 0 to %d", s.n, maxCount-1)
		} else if s.n != 0 {
			if n := steps[narrow]; i > narrow && n.n > s.n {
				c.fail(s.path, "a wider order must come later", "%d comes before %s, %d", s.n, n.path, n.n)
			}
			narrow = i
		}
	}
}

// duration checks a length of time that the fold adds to event times, which have milliseconds.
func (c *checker) duration(path string, d, least time.Duration) {
	switch {
	case d < least || d > maxDuration:
		c.fail(path, "", "%s is not between %s and %s", events.DurationText(d), events.DurationText(least), events.DurationText(maxDuration))
	// A finer one would be cut without a word.
	case d%time.Millisecond != 0:
		c.fail(path, "event time has milliseconds", "%s is not a whole number of milliseconds", events.DurationText(d))
	}
}

// load checks that limits that shrink also come back.
func (c *checker) load(l *analyzer.Load) {
	if l.High < 0 || l.High > maxLoad {
		c.fail("load.high", "0 turns it off", "%d is no number of hops per minute from 0 to %d", l.High, int64(maxLoad))
	}
	switch {
	case l.Low < 0:
		c.fail("load.low", "", "%d is no number of hops per minute", l.Low)
	case l.Low > l.High:
		c.fail("load.low", "limits shrink above high and return below low", "%d is above high, %d", l.Low, l.High)
	// The sum of hops is never below 0.
	case l.High > 0 && l.Low == 0:
		c.fail("load.low", "give a number of hops per minute below high", "is missing: limits that shrank would never return")
	}
	if l.Percent < 1 || l.Percent > 100 {
		c.fail("load.percent", "it is what is left of a scaled limit", "%d is not between 1 and 100", l.Percent)
	}
	if l.Scale >= 1<<analyzer.RuleCount || fixed(l.Scale) {
		c.fail("load.scale", "", "names a rule that has no limits")
	}
}

// degraded checks the mode for a fold that is behind; after 0 is off.
func (c *checker) degraded(d *analyzer.Degraded) {
	c.duration("degraded.after", d.After, 0)
	c.duration("degraded.until", d.Until, time.Second)
	if d.Percent < 1 || d.Percent > 100 {
		c.fail("degraded.percent", "it is what is left of a scaled limit", "%d is not between 1 and 100", d.Percent)
	}
	if d.Scale >= 1<<analyzer.RuleCount || fixed(d.Scale) {
		c.fail("degraded.scale", "", "names a rule that has no limits")
	}
}

// fixed reports whether the set names a rule of which nothing can be set.
func fixed(set analyzer.RuleSet) bool {
	for id := range analyzer.RuleCount {
		if set.Has(id) && analyzer.Rules[id].Fixed {
			return true
		}
	}
	return false
}

// setting checks one row, in the rules or in an override. A key that the row makes nothing of
// is refused, because a limit that is silently not there is worse.
func (c *checker) setting(path string, r *analyzer.Row, s *rules.Setting) {
	// In a file the key is refused by the reader; this is for limits that were made in code.
	if r.Fixed {
		if *s != r.Default {
			c.fail(path, "a person's stop always holds; delete the key", "has no limits")
		}
		return
	}
	// Limits that were made in code may hold anything.
	if s.Mode > rules.ModeWarn {
		c.fail(path+".mode", "", "%d is no mode", s.Mode)
	}
	if s.IgnoreResults && !r.Blind {
		c.fail(path+".ignore_results", "only "+analyzer.RowsThat(func(r *analyzer.Row) bool { return r.Blind })+" can ignore results", "means nothing here")
	}
	// The hint names the rows for which the key is, since it was meant for one of them.
	if s.All && !r.ChoosesCount() {
		c.fail(path+".count", "only "+analyzer.RowsThat((*analyzer.Row).ChoosesCount)+" choose what they count", "means nothing here")
	}
	switch {
	case s.Tell == 0:
	case !r.Tells:
		c.fail(path+".tell", "only "+analyzer.RowsThat(func(r *analyzer.Row) bool { return r.Tells })+" say what is left", "means nothing here")
	// It need not be below the limit: then answers report it to the model from the first call on.
	case s.Tell < 0 || s.Tell >= maxThreshold:
		c.fail(path+".tell", "write how much is left when the model is to be told, or off", "%s is out of range", Amount(r.Unit, s.Tell))
	}
	if r.WarnsOnly && s.Stop != rules.Off {
		c.fail(path+".stop", "write it as {warn: 100}", "the rule only warns")
	}
	if s.Hold && !r.Holds {
		c.fail(path+".action", "only "+analyzer.RowsThat(func(r *analyzer.Row) bool { return r.Holds })+" can hold a flow: they refuse calls until somebody decides, and no throttle or return ends that", "cannot be hold here")
	}
	switch {
	case s.Reserve == 0:
	case !r.Shares:
		c.fail(path+".reserve", "only "+analyzer.RowsThat(func(r *analyzer.Row) bool { return r.Shares })+" set aside shares", "means nothing here")
	// A share above the whole could never be set aside.
	case s.Reserve < 0 || s.Reserve >= maxThreshold || s.Stop != rules.Off && s.Reserve > s.Limit():
		c.fail(path+".reserve", "write how much of the limit each child may count on, or off", "%s is out of range", Amount(r.Unit, s.Reserve))
	}
	if s.Unpaced && !r.Paced {
		c.fail(path+".paced", "delete the key", "the pace of the party never widens this rule")
	}
	if s.Extends && !r.Extend {
		c.fail(path+".extend_on_progress", "delete the key", "progress never extends this rule")
	}
	if r.ModeOnly() {
		// 0 here is not given, as such rows have no figures.
		if s.Warn != 0 || s.Stop != 0 || s.Max || s.Window != 0 {
			c.fail(path, "write a mode alone: off, shadow, warn or enforce", "measures nothing, so it has no thresholds")
		}
		return
	}
	c.thresholds(path, r, s)
}

// thresholds checks the figures of a row that measures something, and its window. A threshold
// that can never be reached is refused, with the reason why it cannot.
func (c *checker) thresholds(path string, r *analyzer.Row, s *rules.Setting) {
	if least, widest, why := r.Windows(); s.Window > widest || s.Window < least {
		switch r.Window {
		case "":
			c.fail(path+".window", why, "the rule has no window")
		case "seconds":
			c.fail(path+".window", why, "%s is not between %s and %s", Amount(events.UnitSeconds, s.Window), Amount(events.UnitSeconds, least), Amount(events.UnitSeconds, widest))
		default:
			c.fail(path+".window", why, "%d is no number of %s from %d to %d", s.Window, r.Window, least, widest)
		}
		// With a wrong window it is unknown what can be reached.
		return
	}
	most, why := r.Reach(s)
	good := c.threshold(path+".warn", r, s.Warn, 0, most, why)
	stop := "stop"
	switch {
	case s.Max && r.Silence:
		c.fail(path+".max", "write stop: silence may last so long, and no longer", "means nothing here")
		return
	case s.Max:
		// Messages name the key that stands in the file.
		stop = "max"
		good = c.threshold(path+".max", r, s.Stop, 1, most, why) && good
	default:
		good = c.threshold(path+".stop", r, s.Stop, 0, most, why) && good
	}
	// Equal ones are let through: with max, who is at the limit is warned and the next call
	// refused.
	if good && s.Warn != rules.Off && s.Stop != rules.Off && s.Warn > s.Limit() {
		c.fail(path+".warn", "a warning must come before the stop: lower warn, raise "+stop+", or write warn: off",
			"%s is above %s, %s", Amount(r.Unit, s.Warn), stop, Amount(r.Unit, s.Limit()))
	}
}

// status checks the HTTP status of a refusal; 0 is the row's own.
func (c *checker) status(path string, r *analyzer.Row, s int16) {
	switch {
	case s == 0:
	case r.Status == 0:
		c.fail(path, "delete the key", "the rule refuses no calls")
	case s < 400 || s > 599:
		c.fail(path, "write a status of an error, such as 403 or 429", "%d is no status of a refusal", s)
	}
}

// words checks the text of a row for people. A word in braces without a meaning would be shown as
// nothing.
func (c *checker) words(path string, r *analyzer.Row, s string) {
	switch {
	case s == "":
		return
	case r.Text == "" || r.Fixed:
		c.fail(path, "delete the key", "the rule has words of its own for each of its steps")
		return
	}
	// It goes into each verdict of the row, so it is bounded as names are.
	c.text(path, s, maxText)
	for rest := s; ; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			return
		}
		word := rest[begin:]
		// A brace that is not closed makes the rest of the text the word, which is shown in the
		// message.
		if end := strings.IndexByte(word, '}'); end >= 0 {
			word = word[:end+1]
		}
		if !slices.ContainsFunc(rules.Words[:], func(w [2]string) bool { return w[0] == word }) {
			var known []string
			for _, w := range rules.Words {
				known = append(known, w[0])
			}
			c.fail(path, "known are "+strings.Join(known, ", "), "has %s, which stands for nothing", strconv.Quote(word))
			return
		}
		rest = rest[begin+len(word):]
	}
}

// agents checks the section about agents, and that no silence is judged before flows
// have reported it. A silence shorter than twice agents.report may only be one that is not
// reported yet (decision 47).
func (c *checker) agents(a *agents.Limits) {
	c.duration("agents.report", a.Report, 0)
	if a.Report > maxReport {
		c.fail("agents.report", "0s turns it off", "%s is longer than %s", events.DurationText(a.Report), events.DurationText(maxReport))
	}
	c.duration("agents.patience", a.Patience, time.Second)
	c.duration("agents.resume_within", a.ResumeWithin, time.Second)
	c.duration("agents.review_within", a.ReviewWithin, time.Second)
	c.share("agents.safe_coherence", a.SafeCoherence)
	c.share("agents.safe_risk", a.SafeRisk)
	for id, s := range a.Rules {
		r := analyzer.AgentRow(agents.RuleID(id))
		// Without reports of flows (0) silence is judged by what agents say themselves, at any
		// time.
		if !r.Silence || s.Mode == rules.ModeOff || s.Max || a.Report <= 0 || a.Report > maxReport {
			continue
		}
		for _, t := range [...]struct {
			key string
			v   int64
		}{{"warn", s.Warn}, {"stop", s.Stop}} {
			if t.v > 0 && t.v < int64(maxDuration/time.Second) && time.Duration(t.v)*time.Second < 2*a.Report {
				c.fail("rules."+r.Name+"."+t.key, "a flow tells of an agent once in agents.report: raise this, or lower that",
					"%s is less than twice agents.report, %s", Amount(r.Unit, t.v), events.DurationText(a.Report))
			}
		}
	}
}

// share checks a part of one, in hundredths.
func (c *checker) share(path string, v int64) {
	if v < 0 || v > 100 {
		c.fail(path, "", "%s is not between 0 and 1", strconv.FormatFloat(float64(v)/100, 'f', -1, 64))
	}
}

// threshold checks a value from which on a rule acts; written is how much lower
// the figure in the file is. It returns whether the value is good, so that two of them can be
// compared.
func (c *checker) threshold(path string, rule *analyzer.Row, v, written, most int64, why string) bool {
	switch {
	case v == rules.Off:
		return true
	case v < 1:
		c.fail(path, "write off for never", "%s is too low", Amount(rule.Unit, v-written))
	case v > most:
		c.fail(path, why, "%s can never be reached, at most %s can", Amount(rule.Unit, v-written), Amount(rule.Unit, most-written))
	default:
		return true
	}
	return false
}

// tools checks tools and the arguments that are left out of their hashes; both lists are
// bounded, because they are gone through with each call of a tool.
func (c *checker) tools(tools []analyzer.ToolLimits) {
	if c.tooMany("tools", "", "%d tools are more than the %d that can be listed", len(tools), maxListed) {
		return
	}
	for i := range tools {
		t := &tools[i]
		path := "tools." + pathKey(t.Name)
		c.text(path, t.Name, maxName)
		// A file cannot list one twice; limits made in code can.
		// A few hundred at most, so each is compared with those before it.
		for _, o := range tools[:i] {
			if o.Name == t.Name {
				c.fail(path, "keep one of them", "is listed twice")
			}
		}
		if c.tooMany(path+".ignore_args", "", "%d arguments are more than the %d that can be listed", len(t.IgnoreArgs), maxIgnored) {
			continue
		}
		for j, a := range t.IgnoreArgs {
			at := path + ".ignore_args[" + strconv.Itoa(j) + "]"
			c.text(at, a, maxName)
			if slices.Contains(t.IgnoreArgs[:j], a) {
				c.fail(at, "keep one of them", "%q is listed twice", a)
			}
		}
	}
}

// overrides checks that each can come into force at all: a row that fires without an event has
// no project, agent or tool to look at.
func (c *checker) overrides(overrides []analyzer.Override) {
	if c.tooMany("overrides", "", "%d overrides are more than the %d that can be listed", len(overrides), maxListed) {
		return
	}
	for i := range overrides {
		o := &overrides[i]
		path := "overrides[" + strconv.Itoa(i) + "]"
		if o.Rule >= analyzer.RuleCount {
			c.fail(path+".rule", "", "names no rule")
			continue
		}
		rule := &analyzer.Rules[o.Rule]
		switch {
		case scopeRank(o.Scope) < 0:
			c.fail(path, "write project, agent, tool or flow", "does not say whom it is for")
			continue
		// Such a row is judged at a deadline, or at a refusal.
		case rule.On == 0 && o.Scope != events.ScopeFlow:
			c.fail(path, "write flow, with the correlation id", "%s fires without an event, so it cannot be told for one %s", rule.Name, o.Scope)
		case o.Scope == events.ScopeTool && !rule.On.Has(events.ToolCall) && !rule.On.Has(events.ToolResult):
			c.fail(path, "write project, agent or flow", "%s does not follow tool calls, so it cannot be told for one tool", rule.Name)
		}
		c.text(path+"."+string(o.Scope), o.ID, maxName)
		row := analyzer.FlowRow(o.Rule)
		c.setting(path, &row, &o.Setting)
		if strings.TrimSpace(o.Reason) == "" {
			c.fail(path+".reason", "say why; it stands in the audit log", "is missing")
		} else {
			c.text(path+".reason", o.Reason, maxReason)
		}
		// Only that it has an end is checked: this package never asks for the time, and what
		// is over does nothing.
		if o.Expires <= 0 {
			c.fail(path+".expires", "an override ends by itself: give a time such as 2026-12-01T00:00:00Z", "is missing")
		}
		// Which of the two holds would depend on their order.
		for j, before := range overrides[:i] {
			if before.Scope == o.Scope && before.ID == o.ID && before.Rule == o.Rule {
				c.fail(path, "keep one of them", "changes the same rule for the same %s as overrides[%d]", o.Scope, j)
				break
			}
		}
	}
}

// exempt checks that each exemption names a tag, gives a reason, and can come into force.
func (c *checker) exempt(list []rules.Exemption) {
	if c.tooMany("exempt", "", "%d exemptions are more than the %d that can be listed", len(list), maxListed) {
		return
	}
	for i := range list {
		x, path := &list[i], "exempt["+strconv.Itoa(i)+"]"
		// Without a tag it would silently exempt nothing.
		switch {
		case len(x.Tags) == 0:
			c.fail(path+".tags", "say which: tags: [nightly]", "names no tag")
		case len(x.Tags) > maxIgnored:
			c.fail(path+".tags", "", "%d tags are more than the %d that can be listed", len(x.Tags), maxIgnored)
		}
		for j, tag := range x.Tags {
			at := path + ".tags[" + strconv.Itoa(j) + "]"
			c.text(at, tag, events.MaxTag)
			// Tags are compared without regard to case, and so are two of one list.
			if slices.ContainsFunc(x.Tags[:j], func(t string) bool { return strings.EqualFold(t, tag) }) {
				c.fail(at, "keep one of them; case makes no difference", "%q is listed twice", tag)
			}
		}
		if len(x.Rules) == 0 {
			c.fail(path+".rules", "say from which: rules: [circling]", "names no rule")
		}
		// Unlike an override, an exemption may be from rules of either table.
		for j, name := range x.Rules {
			at := path + ".rules[" + strconv.Itoa(j) + "]"
			row, ok := analyzer.RowNamed(name)
			switch {
			case !ok || row.Fixed:
				c.fail(at, "", "names no rule that has limits")
			case slices.Contains(x.Rules[:j], name):
				c.fail(at, "keep one of them", "%s is listed twice", name)
			case row.OfAgents() && (row.Counts().OfTree() || row.Counts() == agents.CountedProject):
				c.fail(at, "tags are of flows, agents and tools", "%s is about trees or projects, which have no tags", name)
			case row.Silence && x.Expires != 0:
				c.fail(path+".expires", "delete the key, or write an exemption of its own for "+name, "an exemption from %s cannot end by itself: nobody would look at the silence then", name)
			}
		}
		if x.Mode == rules.ModeEnforce || x.Mode > rules.ModeWarn {
			c.fail(path+".mode", "write off, shadow or warn", "an exemption turns nothing on")
		}
		if strings.TrimSpace(x.Reason) == "" {
			c.fail(path+".reason", "say why; it stands in the audit log", "is missing")
		} else {
			c.text(path+".reason", x.Reason, maxReason)
		}
		// arrange sorts by tags and mode, and needs an order in which no two are equal.
		for j := range list[:i] {
			if o := &list[j]; len(x.Tags) > 0 && o.Mode == x.Mode && slices.Equal(sortedTags(o.Tags), sortedTags(x.Tags)) {
				c.fail(path, "put the rules of both into one", "has the tags and the mode of exempt[%d]", j)
				break
			}
		}
	}
}

// sortedTags are tags as they are compared: in lower case and in order.
func sortedTags(tags []string) []string {
	sorted := slices.Clone(tags)
	for i, tag := range sorted {
		sorted[i] = strings.ToLower(tag)
	}
	slices.Sort(sorted)
	return sorted
}

// text checks a name that goes into verdicts, logs and pages. Its bound is in bytes.
func (c *checker) text(path, s string, most int) {
	switch {
	case s == "":
		c.fail(path, "", "is empty")
	case len(s) > most:
		c.fail(path, "", "is longer than %d bytes", most)
	// A name with a line break or an escape would write into the terminal of a reader of the
	// log.
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.fail(path, "", "has characters that cannot be printed")
	}
}

// scopeRank orders scopes from wide to narrow; -1 for those that limits cannot be
// changed for. The order is that in which setting applies overrides, so a narrower one wins.
func scopeRank(s events.ScopeKind) int {
	return slices.Index([]events.ScopeKind{events.ScopeProject, events.ScopeAgent, events.ScopeTool, events.ScopeFlow}, s)
}

// arrange puts limits into the one order in which equal limits are equal values. The slices of
// l are made anew, since others may hold the old ones.
func arrange(l *analyzer.Limits) {
	var tools []analyzer.ToolLimits
	for _, t := range l.Tools {
		// A tool of which nothing is said is as one that is not listed.
		if t.Exempt || len(t.IgnoreArgs) > 0 {
			t.IgnoreArgs = slices.Clip(slices.Sorted(slices.Values(t.IgnoreArgs)))
			tools = append(tools, t)
		}
	}
	slices.SortFunc(tools, func(a, b analyzer.ToolLimits) int { return strings.Compare(a.Name, b.Name) })
	l.Tools = tools
	l.Overrides = slices.SortedFunc(slices.Values(l.Overrides), func(a, b analyzer.Override) int {
		return cmp.Or(cmp.Compare(scopeRank(a.Scope), scopeRank(b.Scope)), strings.Compare(a.ID, b.ID), cmp.Compare(a.Rule, b.Rule))
	})
	// None at all is nil, however it was given.
	var exempt []rules.Exemption
	for _, x := range l.Exempt {
		x.Tags, x.Rules = sortedTags(x.Tags), slices.Sorted(slices.Values(x.Rules))
		exempt = append(exempt, x)
	}
	slices.SortFunc(exempt, func(a, b rules.Exemption) int {
		return cmp.Or(slices.Compare(a.Tags, b.Tags), cmp.Compare(a.Mode, b.Mode))
	})
	l.Exempt = exempt
	l.Prices = slices.Clone(l.Prices)
	l.Prices.Sort()
	l.Forecast = sortForecasts(l.Forecast)
	l.Budgets = slices.SortedFunc(slices.Values(l.Budgets), func(a, b budgets.Budget) int { return strings.Compare(a.Name, b.Name) })
	// What a file spells out and what it leaves to the default must be one value, since versions
	// are hashes.
	for _, r := range analyzer.Rows() {
		arrangeSetting(r.Setting(l), &r.Default)
		if status := r.HTTPStatus(l); int(*status) == r.Status {
			*status = 0
		}
		if text := r.TextOf(l); *text == r.Text {
			*text = ""
		}
	}
	for i := range l.Overrides {
		o := &l.Overrides[i]
		arrangeSetting(&o.Setting, &analyzer.Rules[o.Rule].Default)
	}
}

// arrangeSetting makes settings without a stop equal, however they were given. Off is off,
// whether it was written as stop or as max.
func arrangeSetting(s, usual *rules.Setting) {
	if s.Stop == rules.Off {
		s.Max = usual.Max
	}
}

// pathKey shows a key of the limits file as part of a path: as it is when it is a
// plain word, else in quotes. Keys come from files, so they are cut at 60 bytes and never
// break a line.
func pathKey(s string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' && r != '$'
	}
	switch {
	case s != "" && len(s) <= 60 && !strings.ContainsFunc(s, odd):
		return s
	case len(s) > 60:
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strconv.Quote(s)
}

// Amount writes a threshold as the limits file does: dollars for money, which is
// held in millionths, a duration for seconds, off for rules.Off, else a whole number. What it
// writes, Parse reads as the same value.
func Amount(unit events.Unit, v int64) string {
	switch {
	case v == rules.Off:
		return "off"
	case unit == events.UnitUSD:
		sign := ""
		if v < 0 {
			sign, v = "-", -v
		}
		s := sign + strconv.FormatInt(v/1e6, 10)
		if cents := v % 1e6; cents != 0 {
			s += "." + strings.TrimRight(fmt.Sprintf("%06d", cents), "0")
		}
		return s
	case unit == events.UnitSeconds && v > -maxThreshold/1e6 && v < maxThreshold/1e6:
		return events.DurationText(time.Duration(v) * time.Second)
	}
	return strconv.FormatInt(v, 10)
}
