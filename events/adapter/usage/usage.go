// Package usage reads the token counts of a model request. Every source keeps token counts in an object of its own,
// with names of its own. An adapter has a table of the names, and this is the one reader. All sources report money
// in US dollars.
package usage

import (
	"cmp"
	"math"
	"strconv"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// Field is what a name counts.
type Field uint8

// The fields.
const (
	// Input is as the source counts it: with or without what the cache gave, see events.Usage.
	Input Field = iota
	Output
	Total
	CacheRead
	CacheCreation
	// CacheMinutes and CacheHour are parts of CacheCreation, by how long the cache keeps them. Their sum counts
	// where it is not reported.
	CacheMinutes
	CacheHour
	Reasoning
	Cost    // US dollars
	Details // an object with counts of its own, which fill in what is missing beside it
)

// Names says what a source's names of counts mean. Members with other names are passed over.
// It is filled once and then only read, so all readers share it.
type Names map[string]Field

// Read reads an object of counts, and passes over anything else.
func (n Names) Read(c *jsonwalk.Cursor) (u events.Usage) {
	n.Into(c, &u)
	return u
}

// Into reads an object of counts into u, and leaves what is not counted there as it is.
func (n Names) Into(c *jsonwalk.Cursor, u *events.Usage) {
	minutes := int64(0)
	for c.MaybeObject(); c.Member(); {
		if f, ok := n[string(c.Key())]; ok && f == CacheMinutes {
			minutes, _ = c.Count()
			continue
		}
		// Skip is for members that are no count: Member leaves the cursor before their value.
		if !n.Member(c, u) {
			c.Skip()
		}
	}
	u.CacheCreation = max(u.CacheCreation, minutes+u.CacheHour)
}

// Member reads the member at hand into u if its name is one of a count, and reports whether
// it is. A value that is no count, such as a text or less than 1, is skipped.
func (n Names) Member(c *jsonwalk.Cursor, u *events.Usage) bool {
	f, ok := n[string(c.Key())]
	if !ok || f == CacheMinutes { // which is counted with its sum alone
		return false
	}
	if f == Cost {
		if micro, ok := readDollars(c); ok {
			u.CostMicroUSD, u.Known = micro, true
		}
		return true
	}
	if f == Details {
		// The sum beside the object goes before what the object says, whichever stands first.
		d := n.Read(c)
		u.CacheRead, u.CacheCreation = cmp.Or(u.CacheRead, d.CacheRead), cmp.Or(u.CacheCreation, d.CacheCreation)
		u.CacheHour, u.Reasoning = cmp.Or(u.CacheHour, d.CacheHour), cmp.Or(u.Reasoning, d.Reasoning)
		return true
	}
	// The table is indexed by Field; Details never gets here.
	to := [...]*int64{Input: &u.Input, Output: &u.Output, Total: &u.Total, CacheRead: &u.CacheRead, CacheCreation: &u.CacheCreation, CacheHour: &u.CacheHour, Reasoning: &u.Reasoning}[f]
	if v, ok := c.Count(); ok {
		*to, u.Known = v, true
	}
	return true
}

// readDollars reads an amount of US dollars at the cursor, and passes over anything else.
func readDollars(c *jsonwalk.Cursor) (micro int64, ok bool) {
	if p := c.Peek(); p == '{' || p == '[' {
		c.Skip()
		return 0, false
	}
	return Dollars(c.Scalar())
}

// Dollars reads an amount of US dollars as millionths of one, see CostOf.
func Dollars(text []byte) (micro int64, ok bool) {
	usd, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, false
	}
	return CostOf(usd)
}

// CostOf returns US dollars as millionths of one, rounded to the nearest. Zero, negative costs and
// costs above the limit of an event count as not reported.
func CostOf(usd float64) (micro int64, ok bool) {
	// A number that is none compares as false.
	if !(usd > 0 && usd <= events.MaxCostUSD) {
		return 0, false
	}
	return int64(math.Round(usd * 1e6)), true
}

// More returns what a later report of a request counts more than what was counted of it, and counts it. It
// returns false if nothing grew: a figure that is smaller is of an older report. The total is that of one report
// alone.
func More(counted *events.Usage, now *events.Usage) (more events.Usage, grown bool) {
	more = *now
	if counted.Known {
		more.Total = 0
	}
	for _, f := range [...]struct{ had, is, more *int64 }{
		{&counted.Input, &now.Input, &more.Input}, {&counted.Output, &now.Output, &more.Output}, {&counted.CacheRead, &now.CacheRead, &more.CacheRead},
		{&counted.CacheCreation, &now.CacheCreation, &more.CacheCreation}, {&counted.CacheHour, &now.CacheHour, &more.CacheHour},
		{&counted.Reasoning, &now.Reasoning, &more.Reasoning}, {&counted.CostMicroUSD, &now.CostMicroUSD, &more.CostMicroUSD},
	} {
		*f.more = max(0, *f.is-*f.had)
		*f.had = max(*f.is, *f.had)
		grown = grown || *f.more > 0
	}
	counted.Known = true
	return more, grown
}
