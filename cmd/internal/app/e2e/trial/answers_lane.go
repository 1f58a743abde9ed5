package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"weir/events"
)

// seen is what a driver has seen. The drivers in other languages print it as JSON.
type seen struct {
	Asked    int               `json:"asked"`
	Answered int               `json:"answered"` // by weir
	Refused  int               `json:"refused"`  // of those
	Wrong    int               `json:"wrong"`
	Doubled  int               `json:"doubled"`
	Peak     int               `json:"peak"`   // most in flight at one time
	First    []string          `json:"first"`  // wrong ones
	Silent   []interval        `json:"silent"` // checks without an answer of weir: from, to
	Took     map[int]int       `json:"took"`   // answers of weir, by bucket of time
	Orders   map[string]string `json:"orders"` // the flow of each order that has refused

	mu    sync.Mutex
	under int // checks that wait
}

func newSeen() *seen { return &seen{Took: make(map[int]int), Orders: make(map[string]string)} }

// bucket is the bucket of a time: 40 for each factor of ten, from a microsecond on.
func bucket(d time.Duration) int { return int(40 * math.Log10(max(1, float64(d.Microseconds())))) }

// quantile is the upper bound of the bucket in which it lies, in milliseconds.
func (s *seen) quantile(q float64) float64 {
	all, most := 0, 0
	for b, n := range s.Took {
		all, most = all+n, max(most, b)
	}
	below := 0
	for b := 0; b <= most; b++ {
		if below += s.Took[b]; float64(below) >= q*float64(all) {
			return math.Pow(10, float64(b+1)/40) / 1000
		}
	}
	return 0
}

func (s *seen) begin(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Asked += n
	s.under += n
	s.Peak = max(s.Peak, s.under)
}

// wrong counts one wrong answer, and keeps it while there are few. The caller holds the lock.
func (s *seen) wrong(format string, args ...any) {
	if s.Wrong++; len(s.First) < examples {
		s.First = append(s.First, fmt.Sprintf(format, args...))
	}
}

func (s *seen) doubled(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Doubled++; len(s.First) < examples {
		s.First = append(s.First, fmt.Sprintf(format, args...))
	}
}

// answer is the outcome of a check.
type answer struct {
	ofWeir  bool // and not from memory, or none
	none    bool // nothing decided
	stopped bool
	flow    string // that it names; "" where the caller cannot see it
	order   string // that refuses
	left    float64
	begun   time.Time
}

// The kinds of flows of a lane.
const (
	stoppedKind = iota // by an operator
	workKind
	loopKind
)

// lane makes one call after the other, and knows what each answer has to be. Together the calls of a
// flow determine their answers: the remaining part of its limit falls by one with each, and weir
// refuses the first call over it.
type lane struct {
	seen   *seen
	name   string
	random *rand.Rand
	flows  io.Writer // gets a line for each flow that has ended
	loops  int       // calls of a loop that are allowed

	serial int
	kind   int
	flow   string
	most   int // calls that weir allows
	calls  int // that will be made
	made   int
	// Answers of weir, and calls that have none.
	allowed, refused, missing int
	left                      float64 // as of the last answer
	row                       int     // allowances behind it, or all of a flow that is no loop
	over                      bool    // weir has refused
}

// call returns the next call.
func (l *lane) call() (flow, from, to string, loop bool) {
	if l.made == l.calls {
		l.next()
	}
	from, to = "a-"+l.flow, "b-"+l.flow
	if l.kind == loopKind {
		from, to = loopParties(l.flow, l.made)
	}
	l.made++
	return l.flow, from, to, l.kind == loopKind
}

// next begins a flow.
func (l *lane) next() {
	l.end()
	l.serial++
	l.made, l.allowed, l.refused, l.missing, l.left, l.row, l.over = 0, 0, 0, 0, mostCalls, 0, false
	l.kind, l.flow, l.most = workKind, fmt.Sprintf("%s-%d", l.name, l.serial), mostCalls
	switch r := l.random.IntN(32); {
	case r < 4:
		l.kind, l.flow, l.calls = stoppedKind, stoppedFlow(l.random.IntN(stoppedFlows)), 1+l.random.IntN(6)
	case r < 6:
		l.kind, l.most, l.calls = loopKind, l.loops, l.loops+3
	case r < 7:
		l.calls = mostCalls + 3
	default:
		l.calls = 1 + l.random.IntN(mostCalls)
	}
}

// end writes the outcome of the flow.
func (l *lane) end() {
	if l.made > 0 {
		l.seen.mu.Lock()
		defer l.seen.mu.Unlock()
		fmt.Fprintf(l.flows, "%s %d %d %d\n", l.flow, l.allowed, l.refused, l.missing)
		l.made, l.calls = 0, 0
	}
}

// take holds an answer against what it has to be.
func (l *lane) take(a answer) {
	s := l.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	now := time.Now()
	if a.ofWeir {
		s.Answered++
		s.Took[bucket(now.Sub(a.begun))]++
	} else {
		s.Silent = append(s.Silent, interval{unix(a.begun), unix(now)})
	}
	switch {
	case a.none:
	case l.kind == stoppedKind && !a.stopped:
		s.wrong("%s is stopped, and allowed (by weir: %v)", l.flow, a.ofWeir)
	case a.ofWeir && a.flow != "" && a.flow != l.flow:
		s.wrong("%s: the answer names %s", l.flow, a.flow)
	case l.kind != stoppedKind && a.stopped && l.allowed+l.missing < l.most:
		s.wrong("%s: refused after %d of %d calls (by weir: %v)", l.flow, l.allowed+l.missing, l.most, a.ofWeir)
	case a.ofWeir && a.stopped:
		l.refusedBy(a.order)
	case a.ofWeir:
		l.remaining(a.left)
	}
	switch {
	case !a.ofWeir:
		l.missing++
		if l.kind == loopKind { // weir may not have seen the call that would close the circle
			l.row = 0
		}
	case a.stopped:
		l.refused++
		l.over = true
		s.Refused++
	default:
		l.allowed++
		l.row++
		l.left = a.left
	}
}

// refusedBy holds that an order refuses calls of one flow.
func (l *lane) refusedBy(order string) {
	if l.seen.Orders[order] == "" {
		l.seen.Orders[order] = l.flow
	}
	if of := l.seen.Orders[order]; of != l.flow || order == "" {
		l.seen.wrong("%s: refused by order %q of %s", l.flow, order, of)
	}
}

// remaining holds an allowance against the remaining limit.
func (l *lane) remaining(left float64) {
	if l.over || l.row >= l.most {
		l.seen.wrong("%s: allowed after %d of %d calls, or after it was refused", l.flow, l.row, l.most)
	}
	// A call without an answer may reach the log of a group behind later ones.
	if left > l.left-1 || left < float64(mostCalls-1-l.allowed-l.missing) {
		l.seen.wrong("%s: %v calls are left after %v, %d allowed and %d without an answer", l.flow, left, l.left, l.allowed, l.missing)
	}
}

// orderOf is the part of the id of a verdict that names its order.
func orderOf(verdict string) string {
	if len(verdict) < 17 || verdict[16] != '-' {
		return ""
	}
	return verdict[:16]
}

// leftOf is the remaining number of calls of the limit; -1 where there is none.
func leftOf(list []events.Remaining) float64 {
	for _, r := range list {
		if r.Unit == events.UnitCalls && r.Limit == mostCalls {
			return r.Left
		}
	}
	return -1
}
