package limitfile

import (
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the zones of budgets, for machines without them

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/events"
)

// budgetKeys are the keys of a budget, in the order in which they are written.
var budgetKeys = []string{"name", "scope", "measure", "window", "rolling", "zone", "hard", "soft", "hint", "reserve", "action", "grant"}

// budgetActions are what a budget may do beyond hard, the usual one first.
var budgetActions = []string{string(events.Deny), string(events.Hold), string(events.Throttle), string(events.Warn)}

// budgets reads the list of budgets.
func (r *reader) budgets(n *yaml.Node) (list []budgets.Budget) {
	for i, c := range r.items("budgets", n) {
		list = append(list, r.budget(index("budgets", i), c))
	}
	return list
}

// budget reads one budget. What it does not say has a default, but for its name, scope, window and
// hard.
func (r *reader) budget(path string, n *yaml.Node) budgets.Budget {
	f := r.fields(path, n, budgetKeys...)
	b := budgets.Budget{Hard: budgets.Off, Soft: budgets.Off, Hint: budgets.Off, Action: events.Deny}
	for _, k := range []string{"name", "scope", "window"} {
		if f[k] == nil && n.Kind == yaml.MappingNode {
			r.fail(n, path+"."+k, "", "is missing")
		}
	}
	b.Name, _ = r.text(path+".name", f["name"])
	if word, ok := r.text(path+".scope", f["scope"]); ok {
		if b.Scope, ok = budgets.ParseScope(word); !ok {
			r.fail(f["scope"], path+".scope", meant(word, budgets.ScopeWords()), "%s is none of %s", describe(f["scope"]), strings.Join(budgets.ScopeWords(), ", "))
		}
	}
	if i, ok := r.choice(path+".measure", f["measure"], budgets.MeasureWords()); ok {
		b.Measure = budgets.Measure(i)
	}
	if i, ok := r.choice(path+".window", f["window"], budgets.PeriodWords()); ok {
		b.Window.Period = budgets.Period(i)
	}
	r.boolean(path+".rolling", f["rolling"], &b.Window.Rolling)
	if name, ok := r.text(path+".zone", f["zone"]); ok {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" || name == "" { // the machine's zone would make each machine judge differently
			r.fail(f["zone"], path+".zone", "name one such as Europe/Berlin or America/New_York", "there is no time zone %s", describe(f["zone"]))
		} else if name != "UTC" {
			b.Window.Zone = zone
		}
	}
	for _, x := range []struct {
		key string
		set *int64
	}{{"hard", &b.Hard}, {"soft", &b.Soft}, {"hint", &b.Hint}, {"reserve", &b.Reserve}} {
		unit := b.Measure.Unit()
		v, ok := r.amount(path+"."+x.key, f[x.key], unit)
		if !ok {
			continue
		}
		if b.Measure == budgets.Seconds && v != rules.Off && v <= rules.MaxThreshold {
			v *= int64(b.Measure.In())
		}
		*x.set = v
	}
	if b.Reserve == budgets.Off {
		b.Reserve = 0
	}
	if i, ok := r.choice(path+".action", f["action"], budgetActions); ok {
		b.Action = events.Action(budgetActions[i])
	}
	if f["grant"] != nil {
		b.Grant = []string{}
	}
	for i, c := range r.items(path+".grant", f["grant"]) {
		if name, ok := r.text(index(path+".grant", i), c); ok {
			b.Grant = append(b.Grant, name)
		}
	}
	return b
}

// describeBudgets writes the list of budgets.
func describeBudgets(all []budgets.Budget) list {
	out := list{}
	for i := range all {
		b := &all[i]
		o := object{{"name", b.Name}, {"scope", b.Scope.String()}, {"measure", word(b.Measure.String())}, {"window", word(b.Window.Period.String())}}
		if b.Window.Rolling {
			o.put("rolling", true)
		}
		if b.Window.Zone != nil {
			o.put("zone", b.Window.Zone.String())
		}
		for _, x := range []struct {
			key   string
			v     int64
			usual int64
		}{{"hard", b.Hard, budgets.Off}, {"soft", b.Soft, budgets.Off}, {"hint", b.Hint, budgets.Off}, {"reserve", b.Reserve, 0}} {
			if x.v != x.usual {
				v := x.v
				if b.Measure == budgets.Seconds {
					v /= int64(b.Measure.In())
				}
				o.put(x.key, amount(b.Measure.Unit(), v))
			}
		}
		if b.Action != events.Deny {
			o.put("action", word(b.Action))
		}
		if b.Grant != nil {
			names := list{}
			for _, name := range b.Grant {
				names = append(names, name)
			}
			o.put("grant", names)
		}
		out = append(out, o)
	}
	return out
}

// maxBudgets is how many budgets there may be: a check waits for each of those that it counts for.
const maxBudgets = 16

// maxGranters is how many names may grant.
const maxGranters = 64

// budgets checks that each budget differs from the others, and can be reached.
func (c *checker) budgets(l *analyzer.Limits) {
	if c.tooMany("budgets", "", "%d budgets are more than the %d that there may be", len(l.Budgets), maxBudgets) {
		return
	}
	for i := range l.Budgets {
		b, path := &l.Budgets[i], "budgets["+strconv.Itoa(i)+"]"
		c.text(path+".name", b.Name, maxBudgetName)
		if strings.ContainsFunc(b.Name, func(r rune) bool { return !isNameRune(r) }) {
			c.fail(path+".name", "", "want letters, digits, dots, dashes and underscores")
		}
		if j := slices.IndexFunc(l.Budgets[:i], func(o budgets.Budget) bool { return o.Name == b.Name }); j >= 0 {
			c.fail(path+".name", "each budget has a name of its own", "is the name of budgets[%d] as well", j)
		}
		if b.Scope.Kind == budgets.OfTag {
			c.text(path+".scope", b.Scope.Tag, events.MaxTag)
		}
		if b.Window.Rolling && b.Window.Zone != nil {
			c.fail(path+".zone", "delete the key", "a rolling window has no time zone")
		}
		c.budgetFigures(path, b)
		if b.Grant != nil && (len(b.Grant) == 0 || len(b.Grant) > maxGranters) {
			c.fail(path+".grant", "without the key every operator may grant", "want 1 to %d names", maxGranters)
		}
		for j, name := range b.Grant {
			c.text(path+".grant["+strconv.Itoa(j)+"]", name, events.MaxID)
		}
	}
}

// maxBudgetName is how many bytes the name of a budget may have.
const maxBudgetName = 48

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// budgetFigures checks the thresholds of a budget: hint and soft come before hard.
func (c *checker) budgetFigures(path string, b *budgets.Budget) {
	if b.Hard == budgets.Off && b.Soft == budgets.Off {
		c.fail(path+".hard", "say how much may be spent in a "+b.Window.Period.String(), "is missing")
		return
	}
	most := int64(rules.MaxThreshold)
	for _, x := range []struct {
		key string
		v   int64
	}{{"hard", b.Hard}, {"soft", b.Soft}, {"hint", b.Hint}, {"reserve", b.Reserve}} {
		switch {
		case x.v == budgets.Off:
		case x.v < 0 || x.v > most:
			c.fail(path+"."+x.key, "", "is out of range")
		case x.key != "hard" && b.Hard != budgets.Off && x.v > b.Hard:
			c.fail(path+"."+x.key, "", "is above hard")
		case x.key == "hint" && b.Hard == budgets.Off:
			c.fail(path+".hint", "delete the key, or give hard", "nothing is left of a budget without hard")
		}
	}
	switch {
	case b.Reserve > 0 && b.Measure.Counted():
		c.fail(path+".reserve", "delete the key", "a check says by itself how many %s it is", b.Measure)
	case b.Reserve > 0 && b.Action == events.Warn:
		c.fail(path+".reserve", "delete the key", "action warn refuses nothing")
	}
	switch b.Action {
	case events.Deny, events.Hold, events.Throttle, events.Warn:
	default:
		c.fail(path+".action", "", "want one of %s", strings.Join(budgetActions, ", "))
	}
}

// budgetSchema is what one budget may say.
func budgetSchema() object {
	figure := func(about string) object {
		return object{{"description", about}, {"anyOf", list{object{{"type", "number"}, {"minimum", number("0")}}, object{{"$ref", "#/$defs/duration"}}, object{{"const", word("off")}}}}}
	}
	o := closed("", object{
		{"name", object{{"type", "string"}, {"pattern", "^[A-Za-z0-9._-]{1,48}$"}, {"description", "Name in verdicts, metrics and grants."}}},
		{"scope", object{{"type", "string"}, {"pattern", "^(" + strings.Join(budgets.ScopeWords()[:len(budgets.ScopeWords())-1], "|") + "|tag:.+)$"},
			{"description", "What has an account of its own: each tenant, team, principal, project, service (source), agent, model or tool, tree of flows (its root), each value of a label (tag:NAME), or all together."}}},
		{"measure", object{{"enum", texts(budgets.MeasureWords())}, {"default", "usd"}, {"description", "What is counted. spawns are calls of agents by agents, background_spawns those for which the caller does not wait. seconds are those that tools and models report."}}},
		{"window", object{{"enum", texts(budgets.PeriodWords())}, {"description", "How long the budget lasts. A week begins on Monday."}}},
		{"rolling", object{{"type", "boolean"}, {"default", false}, {"description", "Sum up the last hour, 24 hours, 7 days or 30 days at any time, exact to a sixtieth, instead of the period of the calendar."}}},
		{"zone", object{{"type", "string"}, {"default", "UTC"}, {"examples", list{"Europe/Berlin"}}, {"description", "Time zone of the calendar, by its IANA name."}}},
		{"hard", figure("The most that may be spent in a window: US dollars, tokens, calls, or for seconds a duration.")},
		{"soft", figure("From this on people are warned, once in a window.")},
		{"hint", figure("From this on the answers to checks tell the model what is left.")},
		{"reserve", figure("Set aside for each call that a check allows, until its result. What checks spend stays within hard if no call spends more.")},
		{"action", object{{"enum", texts(budgetActions)}, {"default", budgetActions[0]}, {"description", "What happens to calls beyond hard."}}},
		{"grant", listSchema(nameSchema(""), "Who may grant more. Every operator when not given.")},
	})
	return append(o, pair{"required", list{"name", "scope", "window"}})
}
