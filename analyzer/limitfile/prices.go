package limitfile

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/budgets"
	"weir/analyzer/prices"
	"weir/events"
)

// priceKeys are the keys of a model, in the order in which they are written.
var priceKeys = []string{"input", "output", "cache_read", "cache_write", "reasoning", "batch_input", "batch_output", "cache_write_1h"}

// WithPrices returns the limits with the prices of the models that they do not price themselves,
// and with the version that belongs to both.
func WithPrices(l analyzer.Limits, t prices.Table) analyzer.Limits {
	if len(t) == 0 {
		return l
	}
	l.Prices = l.Prices.Under(t)
	l.Version = Version(&l)
	return l
}

// prices reads the section of prices, in US dollars for a million tokens.
func (r *reader) prices(n *yaml.Node) (t prices.Table) {
	for key, v := range r.pairs("prices", n) {
		path := join("prices", key.Value)
		f := r.fields(path, v, append(slices.Clone(priceKeys), "cache_ttl")...)
		var read [8]int64
		for i, k := range priceKeys {
			switch {
			case f[k] != nil:
				read[i], _ = r.amount(path+"."+k, f[k], events.UnitUSD)
			// The others have a default, see prices.Plain.
			case i < 2 && v.Kind == yaml.MappingNode:
				r.fail(v, path+"."+k, "give US dollars for a million tokens", "is missing")
			case i == 4, i == 6:
				read[i] = read[1]
			case i == 7: // as cache_write, see prices.Price
			default:
				read[i] = read[0]
			}
		}
		var ttl time.Duration
		r.duration(path+".cache_ttl", f["cache_ttl"], &ttl)
		if f["cache_ttl"] != nil && (ttl < time.Second || ttl > maxDuration || ttl%time.Second != 0) {
			r.fail(f["cache_ttl"], path+".cache_ttl", "write it as 5m or 1h", "is no whole number of seconds from 1s on")
		}
		t = append(t, prices.Model{Name: key.Value, Price: prices.Price{CacheTTL: int64(ttl / time.Second), Input: read[0], Output: read[1], CacheRead: read[2], CacheWrite: read[3], Reasoning: read[4], BatchInput: read[5], BatchOutput: read[6], CacheHour: read[7]}})
	}
	return t
}

// describePrices writes the section of prices.
func describePrices(t prices.Table) object {
	out := object{}
	for i := range t {
		p, usual := &t[i].Price, prices.Plain(t[i].Input, t[i].Output)
		usd := func(v int64) any { return amount(events.UnitUSD, v) }
		o := object{{"input", usd(p.Input)}, {"output", usd(p.Output)}}
		for _, x := range []struct {
			key       string
			is, usual int64
		}{{"cache_read", p.CacheRead, usual.CacheRead}, {"cache_write", p.CacheWrite, usual.CacheWrite}, {"reasoning", p.Reasoning, usual.Reasoning},
			{"batch_input", p.BatchInput, usual.BatchInput}, {"batch_output", p.BatchOutput, usual.BatchOutput}, {"cache_write_1h", p.CacheHour, 0}} {
			if x.is != x.usual {
				o.put(x.key, usd(x.is))
			}
		}
		if p.CacheTTL != 0 {
			o.put("cache_ttl", duration(time.Duration(p.CacheTTL)*time.Second))
		}
		out.put(t[i].Name, o)
	}
	return out
}

// prices checks the table of prices.
func (c *checker) prices(t prices.Table) {
	if c.tooMany("prices", "keep the models that you use", "%d models are more than the %d that can be priced", len(t), maxPriced) {
		return
	}
	for i := range t {
		path := join("prices", t[i].Name)
		c.text(path, t[i].Name, maxName)
		p := &t[i].Price
		if p.CacheTTL < 0 || p.CacheTTL > int64(maxDuration/time.Second) {
			c.fail(path+".cache_ttl", "write it as 5m or 1h", "%d s is out of range", p.CacheTTL)
		}
		for j, v := range [...]int64{p.Input, p.Output, p.CacheRead, p.CacheWrite, p.Reasoning, p.BatchInput, p.BatchOutput, p.CacheHour} {
			if v < 0 || v > prices.Most {
				c.fail(path+"."+priceKeys[j], "give US dollars for a million tokens", "want 0 to 1000000")
			}
		}
	}
}

// maxPriced is how many models may have a price: the record of the limits in the log has to stay
// far below the 1 MiB that a broker takes.
const maxPriced = 5_000

// schema of one model of the section of prices.
func priceSchema() object {
	usd := func(about string) object {
		return object{{"type", "number"}, {"minimum", number("0")}, {"maximum", number("1000000")}, {"description", about}}
	}
	o := closed("", object{
		{"input", usd("A million input tokens.")},
		{"output", usd("A million output tokens.")},
		{"cache_read", usd("A million input tokens that the cache gave. As input when not given.")},
		{"cache_write", usd("A million input tokens that are written into the cache. As input when not given.")},
		{"cache_write_1h", usd("A million input tokens that are written into a cache that keeps them an hour. As cache_write when not given.")},
		{"reasoning", usd("A million reasoning tokens. As output when not given.")},
		{"batch_input", usd("A million input tokens of a batch. The cache costs as much less. As input when not given.")},
		{"batch_output", usd("A million output tokens of a batch. Reasoning costs as much less. As output when not given.")},
		{"cache_ttl", durationSchema("How long the provider's cache keeps what it read last, such as 1h. 5m for Anthropic and Bedrock, 10m for OpenAI when not given; not known for others.")},
	})
	return append(o, pair{"required", list{"input", "output"}})
}

// CountsDollars reports whether a rule that is on counts US dollars, so that the limits need prices.
func CountsDollars(l *analyzer.Limits) bool {
	for _, r := range analyzer.Rows() {
		if r.Unit == events.UnitUSD && r.Limits(l) {
			return true
		}
	}
	return slices.ContainsFunc(l.Budgets, func(b budgets.Budget) bool { return b.Measure == budgets.USD })
}
