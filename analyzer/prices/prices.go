// Package prices computes what the tokens of an event cost from a table of prices per model.
//
// It promises the same millionths of a dollar for the same event and table on every machine: all
// arithmetic is on whole numbers. The table is a part of the limits, so the log records it.
package prices

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"weir/events"
)

// Price is what a million tokens of one model cost, in millionths of a US dollar.
type Price struct {
	Input      int64
	Output     int64
	CacheRead  int64 // input that the provider's cache gave
	CacheWrite int64 // input that was written into the cache
	CacheHour  int64 // input that was written into a cache that keeps it an hour; 0 for the price of CacheWrite
	Reasoning  int64 // output that the model only thought
	// Of requests of a batch. The cache and reasoning cost as much less as input and output do.
	BatchInput, BatchOutput int64
	// CacheTTL is how many seconds the provider's cache keeps what it read last; 0 for the provider's
	// usual time.
	CacheTTL int64
}

// Most is the highest price: one US dollar for a token.
const Most = 1_000_000_000_000

// Plain returns the price of a model of which only input and output are known. Cached input then
// costs as much as other input, and reasoning as much as other output.
// Requests of a batch cost as much as others.
func Plain(input, output int64) Price {
	return Price{Input: input, Output: output, CacheRead: input, CacheWrite: input, Reasoning: output, BatchInput: input, BatchOutput: output}
}

// Model is the price of one model, by the name that logs have for it.
type Model struct {
	Name string
	Price
}

// Table lists models in the order of their names, each once. A nil Table knows no price.
type Table []Model

// Find returns the price of a model.
//
// It looks for the name alone first, then with the provider before it, then without the date that
// providers append to a name.
func (t Table) Find(provider, model string) (*Price, bool) {
	if len(t) == 0 || model == "" {
		return nil, false
	}
	if p, ok := t.named(model); ok {
		return p, true
	}
	if provider != "" {
		if p, ok := t.joined(provider, model); ok {
			return p, true
		}
	}
	if name := undated(model); name != model {
		return t.named(name)
	}
	return nil, false
}

// named finds the entry of a name.
func (t Table) named(name string) (*Price, bool) {
	i, ok := slices.BinarySearchFunc(t, name, func(m Model, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return nil, false
	}
	return &t[i].Price, true
}

// joined finds the entry of provider/model without building that name.
func (t Table) joined(provider, model string) (*Price, bool) {
	i, ok := slices.BinarySearchFunc(t, model, func(m Model, model string) int { return compareJoined(m.Name, provider, model) })
	if !ok {
		return nil, false
	}
	return &t[i].Price, true
}

// compareJoined compares name with provider/model.
func compareJoined(name, provider, model string) int {
	for _, part := range [...]string{provider, "/", model} {
		n := min(len(part), len(name))
		if c := strings.Compare(name[:n], part); c != 0 {
			return c
		}
		name = name[n:]
	}
	return min(len(name), 1)
}

// undated returns a name without a date at its end, as in -20250929 and -2024-08-06.
func undated(name string) string {
	for _, form := range [...]string{"-dddddddd", "-dddd-dd-dd"} {
		if n := len(name) - len(form); n > 0 && dated(name[n:], form) {
			return name[:n]
		}
	}
	return name
}

// dated reports whether s has the form, in which d stands for a digit.
func dated(s, form string) bool {
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; form[i] == 'd' && !digit || form[i] != 'd' && s[i] != form[i] {
			return false
		}
	}
	return true
}

// Cost returns what the usage of the event costs, in millionths of a US dollar; false when the
// table has no price for its model. It ignores a cost that the event reports.
func (t Table) Cost(ev *events.Event) (int64, bool) {
	p, ok := t.Find(ev.Provider, ev.Model)
	if !ok {
		return 0, false
	}
	if ev.Usage.Batch && (p.BatchInput != p.Input || p.BatchOutput != p.Output) {
		return p.batch().cost(split(ev)), true
	}
	return p.cost(split(ev)), true
}

// batch is the price of a model for requests of a batch.
func (p *Price) batch() *Price {
	less := func(price, batch, usual int64) int64 {
		if usual == 0 {
			return price
		}
		hi, lo := bits.Mul64(uint64(price), uint64(batch))
		return rounded(hi, lo, uint64(usual))
	}
	return &Price{Input: p.BatchInput, Output: p.BatchOutput, CacheRead: less(p.CacheRead, p.BatchInput, p.Input), CacheWrite: less(p.CacheWrite, p.BatchInput, p.Input), CacheHour: less(p.CacheHour, p.BatchInput, p.Input),
		Reasoning: less(p.Reasoning, p.BatchOutput, p.Output), BatchInput: p.BatchInput, BatchOutput: p.BatchOutput}
}

// Growth returns what part of the usage costs: grown of all tokens of a cumulative figure.
func (t Table) Growth(ev *events.Event, grown, all int64) (int64, bool) {
	cost, ok := t.Cost(ev)
	if !ok || grown >= all || all <= 0 {
		return cost, ok
	}
	hi, lo := bits.Mul64(uint64(cost), uint64(max(0, grown)))
	return rounded(hi, lo, uint64(all)), true
}

// Tokens are those of one event, by what they cost. No token is in two fields.
type Tokens struct{ Input, Output, CacheRead, CacheWrite, CacheHour, Reasoning int64 }

// Context returns the input tokens, those of the cache included.
func (n *Tokens) Context() int64 { return n.Input + n.CacheRead + n.CacheWrite + n.CacheHour }

// ofHour is what a million tokens cost that a cache keeps an hour.
func (p *Price) ofHour() int64 {
	if p.CacheHour == 0 {
		return p.CacheWrite
	}
	return p.CacheHour
}

// cost adds up all parts before it rounds.
func (p *Price) cost(n Tokens) int64 {
	var hi, lo, carry uint64
	for _, part := range [...][2]int64{{n.Input, p.Input}, {n.Output, p.Output}, {n.CacheRead, p.CacheRead}, {n.CacheWrite, p.CacheWrite}, {n.CacheHour, p.ofHour()}, {n.Reasoning, p.Reasoning}} {
		h, l := bits.Mul64(uint64(part[0]), uint64(part[1]))
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	return rounded(hi, lo, 1e6)
}

// rounded divides and rounds to the nearest; what does not fit becomes the greatest number.
func rounded(hi, lo, by uint64) int64 {
	lo, carry := bits.Add64(lo, by/2, 0)
	if hi += carry; hi >= by {
		return math.MaxInt64
	}
	n, _ := bits.Div64(hi, lo, by)
	return int64(min(n, math.MaxInt64))
}

// Parts returns the tokens of the event by what they cost.
func Parts(ev *events.Event) Tokens { return split(ev) }

// Of returns what the tokens cost, in millionths of a US dollar.
func (p *Price) Of(n Tokens) int64 { return p.cost(n) }

// Context returns the input tokens of the event, those of the cache included.
func Context(ev *events.Event) int64 {
	n := split(ev)
	return n.Context()
}

// split separates the kinds of tokens of an event.
//
// Formats disagree whether cached tokens are a part of the input, and reasoning one of the output. A
// source may report it for the cache (Usage.CacheInInput).
// The total decides if it equals the sum of one reading. Otherwise cached tokens are counted beside
// the input for Anthropic and Bedrock, and reasoning beside the output for Google.
func split(ev *events.Event) Tokens {
	u := &ev.Usage
	hour := min(u.CacheHour, u.CacheCreation)
	n := Tokens{u.Input, u.Output, u.CacheRead, u.CacheCreation - hour, hour, u.Reasoning}
	cached := n.CacheRead + u.CacheCreation
	if n.Input+n.Output+cached+n.Reasoning == 0 {
		// Without parts all tokens count as input, mostly the cheaper side.
		n.Input = u.Total
		return n
	}
	cache, reasoning := beside(ev, cached)
	if u.CacheInInput != events.Unknown {
		cache = u.CacheInInput == events.No
	}
	if !cache {
		n.Input = max(0, n.Input-cached)
	}
	if !reasoning {
		n.Output = max(0, n.Output-n.Reasoning)
	}
	return n
}

// beside reports whether the cached tokens and the reasoning of an event are counted beside its input
// and its output.
func beside(ev *events.Event, cached int64) (cache, reasoning bool) {
	u := &ev.Usage
	if plain := u.Input + u.Output; u.Total != 0 {
		switch u.Total {
		case plain: // a part is never larger than the whole
			return cached > u.Input, u.Reasoning > u.Output
		case plain + cached:
			return true, false
		case plain + u.Reasoning:
			return false, true
		case plain + cached + u.Reasoning:
			return true, true
		}
	}
	// A part is never larger than the whole.
	cache = cached > u.Input || from(ev, "anthropic", "bedrock", "claude")
	reasoning = u.Reasoning > u.Output || from(ev, "google", "gemini", "vertex")
	return cache, reasoning
}

// from reports whether the provider or the model has one of the words in its name.
func from(ev *events.Event, words ...string) bool {
	for _, w := range words {
		if strings.Contains(ev.Provider, w) || strings.Contains(ev.Model, w) {
			return true
		}
	}
	return false
}

// Under returns t with the models of o that t does not have. Both stay as they are.
func (t Table) Under(o Table) Table {
	if len(o) == 0 {
		return t
	}
	out := slices.Clone(t)
	for _, m := range o {
		if _, ok := t.named(m.Name); !ok {
			out = append(out, m)
		}
	}
	out.Sort()
	return out
}

// Sort puts the models into the order of their names.
func (t Table) Sort() {
	slices.SortFunc(t, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
}
