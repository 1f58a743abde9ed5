package budgets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/rules"
	"weir/events"
)

// Kind is what the values of a scope are: a budget has one account for each of them.
type Kind uint8

// The kinds of scopes. They stand in the records of flows, so that numbers are never reused.
const (
	OfAll       Kind = iota // one account for everything
	OfTenant                // tenant_id
	OfTeam                  // team_id
	OfPrincipal             // the name of the access file that sent the event
	OfProject               // project_id
	OfService               // source
	OfAgent                 // the calling agent, else its session
	OfModel                 // model
	OfTool                  // tool.name
	OfTag                   // the value of a label, see Scope.Tag
	OfTree                  // the root of the tree that the flow belongs to, which may be the flow itself
	kindCount
)

var kindNames = [kindCount]string{"all", "tenant", "team", "principal", "project", "service", "agent", "model", "tool", "tag", "tree"}

// String returns the kind as a limits file spells it.
func (k Kind) String() string { return kindNames[min(k, kindCount-1)] }

// OfFlow reports whether a flow keeps the first value of the kind that an event names, for events that
// name none. Values of the other kinds belong to each event by itself.
func (k Kind) OfFlow() bool {
	switch k {
	case OfTenant, OfTeam, OfPrincipal, OfProject, OfModel, OfTag, OfTree:
		return true
	}
	return false
}

// Scope is what the accounts of a budget are of.
type Scope struct {
	Kind Kind
	Tag  string // of OfTag: the name of a label name=value, or a tag
}

// String returns the scope as a limits file spells it.
func (s Scope) String() string {
	if s.Kind == OfTag {
		return "tag:" + s.Tag
	}
	return s.Kind.String()
}

// ParseScope returns the scope that a limits file spells so.
func ParseScope(word string) (s Scope, ok bool) {
	if tag, is := strings.CutPrefix(word, "tag:"); is && tag != "" {
		return Scope{Kind: OfTag, Tag: tag}, true
	}
	i := slices.Index(kindNames[:], word)
	return Scope{Kind: Kind(max(0, i))}, i >= 0 && Kind(i) != OfTag
}

// ScopeWords lists what ParseScope takes.
func ScopeWords() []string {
	return append(append(slices.Clone(kindNames[:OfTag]), kindNames[OfTag+1:]...), "tag:NAME")
}

// ValueOf returns the value of the scope that the event names; "" where it names none.
func (s Scope) ValueOf(ev *events.Event) string {
	switch s.Kind {
	case OfAll:
		return "all"
	case OfTenant:
		return ev.TenantID
	case OfTeam:
		return ev.TeamID
	case OfPrincipal:
		return ev.Principal
	case OfProject:
		return ev.ProjectID
	case OfService:
		return ev.Source
	case OfAgent:
		return agentOf(ev)
	case OfModel:
		return ev.Model
	case OfTool:
		return ev.Tool.Name
	case OfTree:
		return ev.Root()
	case OfTag:
		return tagOf(s.Tag, ev.Tags, ev.From.Tags)
	}
	return ""
}

// agentOf is the agent that spends: the caller, also when the callee reports that it is done.
func agentOf(ev *events.Event) string {
	p := ev.From
	if ev.Kind == events.AgentReturn {
		p = ev.To
	}
	if p.Agent != "" {
		return p.Agent
	}
	return p.Session
}

// tagOf is the value of the first label of the name, or the tag itself where it has no value.
func tagOf(name string, lists ...[]string) string {
	for _, tags := range lists {
		for _, t := range tags {
			label, value, has := strings.Cut(t, "=")
			switch {
			case label != name:
			case has && value != "":
				return value
			default:
				return name
			}
		}
	}
	return ""
}

// MaxValue is how many bytes of a value stand in a key. Of longer ones the end is a hash.
const MaxValue = 96

// Value returns the value as keys have it.
func Value(v string) string {
	if len(v) <= MaxValue {
		return v
	}
	return strings.ToValidUTF8(v[:MaxValue-17], "") + "#" + fmt.Sprintf("%016x", xxhash.Sum64String(v))
}

// Measure is what a budget counts.
type Measure uint8

// The measures.
const (
	USD              Measure = iota // millionths of a US dollar
	Tokens                          // input and output
	Calls                           // of agents and tools; with the scope model, inferences
	Spawns                          // calls of an agent by another one
	Seconds                         // milliseconds that tools and models were at work, as reported
	BackgroundSpawns                // of the spawns those for which the caller does not wait
	measureCount
)

var measureNames = [measureCount]string{"usd", "tokens", "calls", "spawns", "seconds", "background_spawns"}

// String returns the measure as a limits file spells it.
func (m Measure) String() string { return measureNames[min(m, measureCount-1)] }

// MeasureWords lists the measures as a limits file spells them.
func MeasureWords() []string { return measureNames[:] }

// Unit is the unit of figures for people.
func (m Measure) Unit() events.Unit {
	return [measureCount]events.Unit{events.UnitUSD, events.UnitTokens, events.UnitCalls, events.UnitCalls, events.UnitSeconds, events.UnitCalls}[m]
}

// In is how much one of the unit is in an account, which has no fractions.
func (m Measure) In() float64 { return [measureCount]float64{1e6, 1, 1, 1, 1000, 1}[m] }

// Counted reports whether a check says by itself how much it spends, so that nothing has to be
// reserved for it.
func (m Measure) Counted() bool { return m == Calls || m == Spawns || m == BackgroundSpawns }

// Figure is an amount in the unit, for people and verdicts.
func (m Measure) Figure(n int64) float64 { return float64(n) / m.In() }

// Text is an amount in the unit with its name.
func (m Measure) Text(n int64) string {
	digits := strconv.FormatFloat(m.Figure(n), 'f', -1, 64)
	switch m {
	case USD:
		return "$" + digits
	case Seconds:
		return digits + " s"
	}
	return digits + " " + strings.ReplaceAll(m.String(), "_", " ")
}

// Period is how long a window is.
type Period uint8

// The periods.
const (
	Hour Period = iota
	Day
	Week
	Month
	periodCount
)

var periodNames = [periodCount]string{"hour", "day", "week", "month"}

// String returns the period as a limits file spells it.
func (p Period) String() string { return periodNames[min(p, periodCount-1)] }

// PeriodWords lists the periods as a limits file spells them.
func PeriodWords() []string { return periodNames[:] }

// Window is when a budget begins anew.
type Window struct {
	Period Period
	// Rolling sums up the last period at any time; otherwise the period is that of the calendar. A
	// rolling month has 30 days.
	Rolling bool
	Zone    *time.Location // of the calendar; nil is UTC
}

// rolling is the length of a rolling window, in milliseconds.
func (w Window) rolling() events.Stamp {
	const hour = events.Stamp(time.Hour / time.Millisecond)
	return [periodCount]events.Stamp{hour, 24 * hour, 7 * 24 * hour, 30 * 24 * hour}[w.Period]
}

// Seconds is the length of a rolling window.
func (w Window) Seconds() float64 { return float64(w.rolling()) / 1000 }

// Around returns the window of the calendar that the time is in. It ends where the next one begins.
func (w Window) Around(at events.Stamp) (start, end events.Stamp) {
	zone := w.Zone
	if zone == nil {
		zone = time.UTC
	}
	t := at.Time().In(zone)
	var from, to time.Time
	switch w.Period {
	case Hour:
		// By the zone's offset and not by time.Date: where clocks go back an hour comes twice.
		_, offset := t.Zone()
		from = t.Add(-time.Duration((t.Unix()+int64(offset))%3600)*time.Second - time.Duration(t.Nanosecond()))
		to = from.Add(time.Hour)
	case Day:
		from, to = midnight(t, 0, 0, zone), midnight(t, 0, 1, zone)
	case Week:
		monday := -(int(t.Weekday()) + 6) % 7
		from, to = midnight(t, 0, monday, zone), midnight(t, 0, monday+7, zone)
	default:
		from, to = midnight(t, 0, 1-t.Day(), zone), midnight(t, 1, 1-t.Day(), zone)
	}
	start, end = events.StampOf(from), events.StampOf(to)
	if end <= at { // the clock leaps over midnight there, and midnight is a moment of the day before
		_, next := w.Around(at + leap)
		return end, next
	}
	return start, end
}

// leap is longer than any clock leaps, in milliseconds.
const leap events.Stamp = 3 * 3600 * 1000

// midnight is the beginning of the day that is the given months and days after the day of t.
func midnight(t time.Time, months, days int, zone *time.Location) time.Time {
	return time.Date(t.Year(), t.Month()+time.Month(months), t.Day()+days, 0, 0, 0, 0, zone)
}

// Text names the window for people.
func (w Window) Text() string {
	switch {
	case w.Rolling:
		return "rolling " + w.Period.String()
	case w.Zone == nil || w.Zone == time.UTC:
		return w.Period.String()
	}
	return w.Period.String() + " in " + w.Zone.String()
}

// Off as a threshold means never.
const Off = 1<<63 - 1

// Budget is one budget of the limits.
type Budget struct {
	Name    string
	Scope   Scope
	Measure Measure
	Window  Window
	// Hard is the most that may be spent in a window. From Soft on people are warned, from Hint on
	// answers report the remaining budget to the model. Off for never.
	Hard, Soft, Hint int64
	// Reserve is set aside for each call that a check allows, until its result.
	Reserve int64
	Action  events.Action // of a call beyond Hard: warn, throttle, hold or deny
	// Grant lists the people that may grant more; nil for every operator.
	Grant []string
}

// Needs is what a log must report for the budget to count.
func (b *Budget) Needs() rules.Need {
	switch b.Measure {
	case USD:
		return rules.NeedTokens | rules.NeedPrice
	case Tokens:
		return rules.NeedTokens
	case Spawns, BackgroundSpawns:
		return rules.NeedCaller
	}
	return 0
}

// MayGrant reports whether the person may grant more. The part of a name after a slash does not count: it
// names the person on behalf of which a principal acts.
func (b *Budget) MayGrant(by string) bool {
	name, _, _ := strings.Cut(by, "/")
	return b.Grant == nil || slices.Contains(b.Grant, name)
}

// Prefix is the kind of the keys of accounts.
const Prefix = "budget:"

// Key is the key of the account for a value of the scope.
func (b *Budget) Key(value string) string { return Prefix + b.Name + ":" + Value(value) }

// Split returns the name of the budget and the value that the key of an account has.
func Split(key string) (name, value string, ok bool) {
	rest, ok := strings.CutPrefix(key, Prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// Named returns the budget of the name; nil for none.
func Named(list []Budget, name string) *Budget {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
