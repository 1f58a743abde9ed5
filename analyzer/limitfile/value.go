package limitfile

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/analyzer/spelling"
	"weir/events"
)

// A number in quotes is text.
const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// wholeNumber reads decimal digits. Other forms that YAML has for numbers are not
// read, for not everybody reads 010 or 1_000 the same way.
func wholeNumber(n *yaml.Node) (int64, bool) {
	if n.Style&quoted != 0 {
		return 0, false
	}
	return digits(n.Value)
}

// digits reads up to 18 decimal digits without a sign or a zero in front, so that nothing
// overflows.
func digits(s string) (int64, bool) {
	if s == "" || len(s) > 18 || len(s) > 1 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// parseAmount reads a threshold in the unit of the rule: whole seconds, millionths of a
// dollar, or a count. off is rules.Off in each.
func parseAmount(n *yaml.Node, unit events.Unit) (int64, bool) {
	// Quoted or not: the word is the same.
	if n.Value == "off" {
		return rules.Off, true
	}
	switch unit {
	case events.UnitUSD:
		if n.Style&quoted != 0 {
			return 0, false
		}
		return dollars(n.Value)
	case events.UnitSeconds:
		if d, err := time.ParseDuration(n.Value); err == nil && d >= 0 && d%time.Second == 0 && n.Value != "0" {
			return int64(d / time.Second), true
		}
	}
	return wholeNumber(n)
}

// dollars reads dollars with at most six decimals, as millionths. It goes by digits and not by
// floating point, which would not hold 0.1.
func dollars(s string) (int64, bool) {
	whole, part, dot := strings.Cut(s, ".")
	// The part before the dot; 12 digits of dollars fit as millionths.
	v, ok := digits(whole)
	if !ok || len(whole) > 12 || dot && part == "" || len(part) > 6 || strings.Trim(part, "0123456789") != "" {
		return 0, false
	}
	millionths, err := strconv.ParseInt((part + "000000")[:6], 10, 64)
	return v*1e6 + millionths, err == nil
}

// numberHint is the way out when a number was wanted. It is empty where nothing better than
// what was wanted can be said.
func numberHint(n *yaml.Node) string {
	switch v := n.Value; {
	case v == "false" || v == "no" || v == "none" || v == "never" || v == "null" || strings.HasPrefix(v, "-"):
		return "write off for never"
	case spelling.Same(v, "off"):
		return "write it exactly so: off"
	case n.Style&quoted != 0 && v != "":
		if _, ok := digits(v); ok {
			return "write it without quotes"
		}
	case n.Tag == "!!int":
		return "write it in decimal digits, with nothing between them"
	}
	return ""
}

// durationHint is the way out when a duration was wanted: people write days, or no unit.
func durationHint(n *yaml.Node) string {
	if _, ok := digits(n.Value); ok {
		return "say of what: " + n.Value + "s for seconds, " + n.Value + "m for minutes"
	}
	if d, ok := digits(strings.TrimSuffix(n.Value, "d")); ok && strings.HasSuffix(n.Value, "d") && d < 10_000 {
		return "days are no unit: write " + strconv.FormatInt(24*d, 10) + "h"
	}
	return "units are ms, s, m and h"
}

// correlationSources lists the names in the order of their values. Their place in the list is
// their bit in a set.
func correlationSources() []string {
	var names []string
	for s := events.CorrelationExplicit; s <= events.CorrelationPrincipal; s++ {
		names = append(names, s.String())
	}
	return names
}

// The words for what is one thing or the other, the usual first.
var (
	// The second word is what Setting.All, or the flag of the agents, stands for.
	escapedWords  = []string{"escaped", "all"}
	selfWords     = []string{"delegations", "all"}
	idleWords     = []string{"idle", "unknown"}
	rateWords     = []string{"sliding", "beginning"}
	talkWords     = []string{"talkers", "all"}
	turnWords     = []string{"distinct", "changes"}
	noteWords     = []string{"proven", "believed"}
	watchWords    = []string{"reporting", "all"}
	recoveryWords = []string{"off", "automatic"}
)

// either writes one of two words.
func either(words []string, second bool) word {
	if second {
		return word(words[1])
	}
	return word(words[0])
}

// actionWords are what a rule does at its stop threshold: refuse calls as the rule does, or
// have the flow wait for a person.
var actionWords = []string{"refuse", "hold"}

// countWords returns what the row may count, the usual first; nil when there is no choice.
// Every row that chooses has one pair of words, so that all of them fit one flag.
func countWords(r *analyzer.Row) []string {
	switch {
	case !r.ChoosesCount():
		return nil
	case r.OfAgents():
		return escapedWords
	case r.Unknown:
		return idleWords
	case r.Newcomers:
		return talkWords
	case r.Returns:
		return turnWords
	case r.Beginning:
		return rateWords
	}
	return selfWords
}

// hundredths reads a part of one with at most two decimals. Fractions are read as money is,
// which has six decimals.
func hundredths(n *yaml.Node) (int64, bool) {
	if n.Style&quoted != 0 {
		return 0, false
	}
	v, ok := dollars(n.Value)
	return v / 1e4, ok && v%1e4 == 0
}

// share writes what hundredths reads.
func share(v int64) number { return number(Amount(events.UnitUSD, v*1e4)) }
