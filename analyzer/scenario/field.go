package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/analyzer/spelling"
	"weir/events"
)

// fieldKeys are the keys that brackets know, with the check of their values. Values are checked
// when the file is read, before any event is made.
var fieldKeys = [...]struct {
	key   string
	check func(value string) error
}{
	{"flow", anything}, {"source", anything}, {"turn", anything}, {"task", anything}, {"conv", anything}, {"project", anything}, {"memory", anything}, {"team", anything}, {"tenant", anything}, {"principal", anything}, {"account", anything}, {"ms", integer},
	{"root", anything}, {"parent", anything},
	{"corr", func(v string) error { _, ok := events.ParseCorrelationSource(v); return known(ok, v, correlations()) }},
	{"origin", func(v string) error { _, ok := parseOrigin(v); return known(ok, v, names(origins[:])) }},
	{"work", func(v string) error { return known(index(workWords[:], v) >= 0, v, workWords[:]) }},
	{"transfer", func(v string) error { _, ok := parseTransfer(v); return known(ok, v, names(transfers[:])) }},
	{"usage", func(v string) error { _, ok := parseUsage(v); return known(ok, v, names(usages[:])) }},
	{"status", func(v string) error { _, ok := parseStatus(v); return known(ok, v, names(statuses[:])) }},
	{"loops", integer}, {"depth", integer}, {"in", integer}, {"out", integer}, {"total", integer}, {"cached", integer}, {"written", integer}, {"written_1h", integer}, {"reasoning", integer}, {"model", anything}, {"provider", anything}, {"sampled", integer}, {"bytes", integer},
	{"effect", func(v string) error { _, ok := parse(effects[:], v); return known(ok, v, names(effects[:])) }},
	{"state", anything}, {"passed", integer}, {"failed", integer}, {"exit", integer}, {"beside", flag}, {"background", flag},
	{"warn", threshold}, {"stop", threshold}, {"extra", integer},
	{"cost", func(v string) error { _, err := dollars(v); return err }},
	{"late", aTime}, {"for", aTime},
	{"mode", func(v string) error {
		_, ok := rules.ParseMode(v)
		return known(ok, v, []string{"off", "shadow", "warn", "enforce"})
	}},
	{"retry", flag}, {"noid", flag}, {"silent", flag}, {"refused", anything},
	{"margin", anything}, {"health", anything}, {"coherence", part}, {"risk", part}, {"void", flag},
	{"tags", anything}, {"from_tags", anything}, {"tool_tags", anything},
	{"by", anything}, {"admin", flag}, {"claimed", flag},
	{"decision", func(v string) error { return known(index(decisions[:], v) >= 0, v, decisions[:]) }},
}

// bareKeys are the fields that say what they say without a value.
var bareKeys = [...]string{"retry", "noid", "silent", "refused", "void", "admin", "claimed", "beside", "background"}

// checkField says what is wrong with a field. A value that is empty takes the field back, so
// it is always good.
func checkField(f field) error {
	// A few dozen keys, looked through once for each field of a file.
	for _, k := range fieldKeys {
		if k.key != f.key {
			continue
		}
		bare := index(bareKeys[:], k.key) >= 0
		switch {
		case !f.has && !bare:
			return fmt.Errorf("[%s]: want a value: [%s=...]", f.key, f.key)
		case !f.has || f.value == "":
			return nil
		}
		if err := k.check(f.value); err != nil {
			return fmt.Errorf("[%s=%s]: %w", f.key, f.value, err)
		}
		return nil
	}
	keys := make([]string, len(fieldKeys))
	for i := range fieldKeys {
		keys[i] = fieldKeys[i].key
	}
	return unknown("field", f.key, keys)
}

// anything is the check of a text.
func anything(string) error { return nil }

// flag is the check of a field that is there or not.
func flag(string) error { return fmt.Errorf("it takes no value") }

// aTime is the check of a length of time.
func aTime(v string) error {
	_, err := duration(v)
	return err
}

// integer is the check of a count: a whole number, never below 0.
func integer(v string) error {
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 0 {
		return fmt.Errorf("want a whole number")
	}
	return nil
}

// threshold is the check of a limit: a whole number in the unit of the fold, or off. Money is
// in millionths of a dollar there.
func threshold(v string) error {
	if v == "off" {
		return nil
	}
	return integer(v)
}

// optional is a threshold as an override carries it. One that is not set leaves the limit in
// force as it is.
func optional(v string) events.Optional {
	if v == "" {
		return events.Optional{}
	}
	if v == "off" {
		return events.Optional{Set: true, Value: rules.Off}
	}
	return events.Optional{Set: true, Value: whole(v)}
}

// whole is a number that was checked before; 0 for none.
func whole(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0 // checked when it was read; what is not there is none
	}
	return n
}

// part is the check of a figure from 0 to 1; NaN is none.
func part(v string) error {
	if p, err := strconv.ParseFloat(v, 64); err != nil || !(p >= 0 && p <= 1) {
		return fmt.Errorf("want a number from 0 to 1")
	}
	return nil
}

// dollars returns millionths of a dollar.
func dollars(v string) (int64, error) {
	if v == "" {
		return 0, nil
	}
	d, err := strconv.ParseFloat(v, 64)
	if err != nil || d < 0 || d > 1e9 || math.IsNaN(d) {
		return 0, fmt.Errorf("want dollars, as in 0.05")
	}
	return int64(math.Round(d * 1e6)), nil
}

var (
	workWords = [...]string{"auto", "yes", "no", "unknown"}
	decisions = [...]string{"resume", "keep", "archive"}
	origins   = [...]events.Origin{events.OriginUser, events.OriginAgent, events.OriginScheduler, events.OriginApplet, events.OriginSystem}
	usages    = [...]events.UsageScope{events.UsageDelta, events.UsageCumulative, events.UsageAggregate}
	transfers = [...]events.TransferMode{events.ReturnToCaller, events.PassControl}
	effects   = [...]events.Effect{events.EffectRead, events.EffectChanged, events.EffectRejected}
	statuses  = [...]events.Status{events.StatusOK, events.StatusError, events.StatusDenied, events.StatusCancelled, events.StatusTimeout, events.StatusInputRequired}
)

func parseOrigin(v string) (events.Origin, bool)         { return parse(origins[:], v) }
func parseTransfer(v string) (events.TransferMode, bool) { return parse(transfers[:], v) }

func parseUsage(v string) (events.UsageScope, bool) { return parse(usages[:], v) }
func parseStatus(v string) (events.Status, bool)    { return parse(statuses[:], v) }

// parse finds the value that is spelled so.
func parse[T fmt.Stringer](all []T, v string) (T, bool) {
	for _, x := range all {
		if x.String() == v {
			return x, true
		}
	}
	var zero T
	return zero, false
}

// names are the spellings of the values, for messages.
func names[T fmt.Stringer](all []T) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].String()
	}
	return out
}

// correlations are the spellings of all sources, in the order of their values.
func correlations() (out []string) {
	for c := events.CorrelationExplicit; c <= events.CorrelationPrincipal; c++ {
		out = append(out, c.String())
	}
	return out
}

// index is the place of a word in a list; -1 for none.
func index(all []string, v string) int {
	for i := range all {
		if all[i] == v {
			return i
		}
	}
	return -1
}

// known says what the value should have been: the word that was meant, or all of them.
func known(ok bool, v string, all []string) error {
	if ok {
		return nil
	}
	if near := spelling.Nearest(v, all); near != "" {
		return fmt.Errorf("did you mean %q", near)
	}
	return fmt.Errorf("want one of %s", strings.Join(all, ", "))
}

// words are the events that are written as a word, and what may follow its colon:
// nothing, something, or either.
var words = [...]struct {
	word     string
	argument byte // 'n' never, 'y' always, 'm' maybe
}{
	{"start", 'n'}, {"end", 'n'}, {"turn", 'y'}, {"loop", 'y'}, {"reflect", 'y'}, {"stop", 'm'}, {"release", 'm'}, {"override", 'y'}, {"dup", 'm'},
	{"rescue", 'y'}, {"review", 'y'}, {"ack", 'y'},
}

// checkWord reports what is wrong with a word that is written instead of an event; at is the text
// for the message.
func checkWord(word, at string) error {
	all := make([]string, len(words))
	for i, w := range words {
		if w.word == word {
			return nil
		}
		all[i] = w.word
	}
	if near := spelling.Nearest(word, all); near != "" {
		return fmt.Errorf("%s is no event; did you mean %q", at, near)
	}
	return fmt.Errorf("%s is no event; an agent's name alone says nothing: a->b calls, a!tool uses a tool, a~ makes an output", at)
}

// checkArgument says what is wrong with what stands after the colon of a word.
func (a *action) checkArgument() error {
	for _, w := range words {
		if w.word != a.word {
			continue
		}
		switch {
		case w.argument == 'y' && (!a.text.given || a.text.s == ""):
			return fmt.Errorf("%s: want what it is about after a colon, as in %s:x", a.word, a.word)
		case w.argument == 'n' && a.text.given:
			return fmt.Errorf("%s takes nothing after a colon", a.word)
		}
	}
	switch a.word {
	case "override":
		if row, ok := analyzer.RowNamed(a.text.s); !ok || row.OfAgents() && !row.Counts().OfTree() && row.Name != agents.BudgetRule() {
			return unknown("rule", a.text.s, ruleNames())
		}
	case "dup":
		if a.text.given {
			if n, err := strconv.Atoi(a.text.s); err != nil || n < 1 {
				return fmt.Errorf("dup:%s: want the number of an event", a.text.s)
			}
		}
	}
	if a.text.near != "" {
		return fmt.Errorf("%s: only texts of calls, answers and results have fingerprints", a.word)
	}
	return nil
}

// ruleNames are the rules about flows, for messages.
func ruleNames() []string {
	out := make([]string, len(analyzer.Rules))
	for i := range analyzer.Rules {
		out[i] = analyzer.Rules[i].Name
	}
	return out
}

// unknown is the error for a name that is none of all.
func unknown(what, v string, all []string) error {
	if near := spelling.Nearest(v, all); near != "" {
		return fmt.Errorf("%q is no %s; did you mean %q", v, what, near)
	}
	return fmt.Errorf("%q is no %s; want one of %s", v, what, strings.Join(all, ", "))
}
