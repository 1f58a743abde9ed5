package forecast

import (
	"math/bits"

	"weir/analyzer/rules"
)

// Powers on whole numbers: logarithms to the base 2, with 32 binary digits behind the point.

// unit is a logarithm of one.
const unit = 1 << 32

// log2 returns the logarithm of a number of at least 1, rounded down.
func log2(x int64) int64 {
	n := bits.Len64(uint64(max(1, x))) - 1
	m := uint64(max(1, x)) << (63 - n) // from 1 to 2, with 63 digits behind the point
	out := int64(n) << 32
	for digit := int64(unit / 2); digit > 0; digit /= 2 {
		// Squaring doubles the logarithm: its next digit is whether that is 2 or more.
		if m, _ = bits.Mul64(m, m); m >= 1<<63 {
			out += digit
		} else {
			m <<= 1
		}
	}
	return out
}

// exp2 returns 2 to the power y, rounded to the nearest; 0 for less than 1, and the greatest threshold where it
// does not fit.
func exp2(y int64) int64 {
	switch n := y >> 32; {
	case y < 0:
		return 0
	case n >= 62:
		return rules.MaxThreshold
	}
	m := uint64(1 << 63)
	for i, root := range roots {
		if y>>(31-i)&1 == 1 {
			hi, lo := bits.Mul64(m, root)
			m = hi<<1 | lo>>63
		}
	}
	return min(int64((m>>(62-y>>32)+1)>>1), rules.MaxThreshold)
}

// roots are the square root of 2, its square root, and so on, with 63 digits behind the point.
var roots = func() (out [32]uint64) {
	last := uint64(0) // 2 itself, which does not fit
	for i := range out {
		// The greatest number whose square is not above the one before.
		root := uint64(1 << 63)
		for digit := uint64(1 << 62); digit > 0; digit >>= 1 {
			hi, lo := bits.Mul64(root|digit, root|digit)
			if square := hi<<1 | lo>>63; hi < 1<<63 && (last == 0 || square <= last) {
				root |= digit
			}
		}
		out[i], last = root, root
	}
	return out
}()

// scaled is the typical spend where so much was spent: it grows with a power of the spend, in thousandths.
func (r *Row) scaled(spent int64) int64 {
	if r.Typical <= 0 {
		return spent
	}
	return max(1, exp2(((One-r.Power)*log2(r.Typical)+r.Power*log2(spent))/One))
}

// fit finds out with which power of the spend so far the final spend of runs grows, by least squares on the
// logarithms. It returns the multiples of what would be typical at each spend, in thousandths.
//
// Each run is held against the power that the other runs have (the jackknife): the multiples are then those of
// further runs, although few runs give a power. Without a power, or with one above 1, the final spend grows in
// proportion, and the multiples are those of the spend.
func fit(runs []spend) (r Row, multiples []int64) {
	n := int64(len(runs))
	// Logarithms with 16 digits: squares of them can be added up.
	xs, ys, meanX, meanY := make([]int64, n), make([]int64, n), int64(0), int64(0)
	for i, s := range runs {
		xs[i], ys[i] = log2(s.then)>>16, log2(s.end)>>16
		meanX, meanY = meanX+xs[i], meanY+ys[i]
	}
	meanX, meanY = meanX/n, meanY/n
	squares, products := int64(0), int64(0)
	for i := range xs {
		squares += (xs[i] - meanX) * (xs[i] - meanX)
		products += (xs[i] - meanX) * (ys[i] - meanY)
	}
	power := max(0, products/max(1, squares/One))
	if squares < One || power >= One {
		for _, s := range runs {
			multiples = append(multiples, multiple(s.end, s.then))
		}
		return r, multiples
	}
	r.Typical, r.Power = max(1, exp2(meanX<<16)), power
	for i := range xs {
		x := xs[i] - meanX
		left := ys[i] - meanY - power*x/One
		hi, lo := bits.Mul64(uint64(x*x), unit)
		pull, _ := bits.Div64(min(hi, uint64(squares)-1), lo, uint64(squares)) // how much of the power is the run's
		rest := max(unit/100, unit-unit/n-int64(pull))
		left += left * int64(pull>>8) / (rest >> 8)
		multiples = append(multiples, max(1, min(MostMultiple, exp2((meanY-meanX+left)<<16+log2(One)))))
	}
	return r, multiples
}

// spend is what a run had spent at a number of calls, and in the end.
type spend struct{ then, end int64 }
