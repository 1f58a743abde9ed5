package limits

import (
	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/costs"
)

// Priced returns the limits with the prices by which they count: those of the limits and the given
// ones. Where none are given and a rule counts US dollars, the built-in prices are added. Limits
// without such a rule keep their version, since nothing that they decide depends on prices.
func Priced(l analyzer.Limits, given prices.Table) analyzer.Limits {
	if len(given) == 0 && limitfile.CountsDollars(&l) {
		given = costs.BuiltIn()
	}
	return limitfile.WithPrices(l, given)
}

// WithFigures returns the limits with the prices by which people are shown what was spent: the built-in ones
// are under those of the limits, unless a file of prices was given. No verdict depends on them.
func (s *Source) WithFigures(l *analyzer.Limits) analyzer.Limits {
	if len(s.o.Prices) > 0 {
		return *l
	}
	return limitfile.WithPrices(*l, costs.BuiltIn())
}
