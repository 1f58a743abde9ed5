package orders

import (
	"sync"

	"weir/events"
	"weir/events/byhand"
	"weir/sink/guard"
)

// Part is what one process can say of an order: when it enforced the order itself, and what the guards
// that follow it have confirmed. Members of a group send it to each other.
type Part struct {
	// Enforced is since when checks that this process answers are refused; 0 when it does not know
	// the record.
	Enforced  events.RFC3339 `json:"enforced,omitzero"`
	Confirmed Confirmed      `json:"confirmed"` // for members of earlier versions, which read no words
	// Words is what the process knows of each guard, and More how many it does not know at least.
	Words []Word `json:"words"`
	More  int    `json:"more,omitempty"`
	// Observed is how many calls of the scope were reported that began after Enforced.
	Observed int64 `json:"observed"`
	// Runtimes is what programs that run agents have answered to this process.
	Runtimes []RuntimePart `json:"runtimes,omitempty"`
}

// Receipt says from acknowledgements whether an order has taken hold. It is made of the parts of all
// processes.
type Receipt struct {
	Verdict string         `json:"verdict_id"` // of the record that it is about
	Given   events.RFC3339 `json:"given"`
	// Complete is whether every process and every guard that is known has confirmed.
	Complete bool `json:"complete"`
	// Since is since when no call of the scope was admitted by a check, where it is Complete and the
	// order stops; for a release, since when calls may be made.
	Since   events.RFC3339 `json:"since,omitzero"`
	Members int            `json:"members"` // processes that have confirmed
	// Unreached are processes that could not be asked or have not confirmed, with the reason.
	Unreached []string `json:"unreached"`
	Confirmed
	Observed int64 `json:"observed_after"` // calls of the scope that were reported, and began after the stop
	// Runtimes are the programs that run agents, with their answers to the request to cancel.
	Runtimes []RuntimePart `json:"runtimes"`

	words []Word // of all processes
}

// NewReceipt returns the receipt of a record to which no process has said anything yet.
func NewReceipt(o *byhand.Order) *Receipt {
	return &Receipt{Verdict: o.VerdictID(), Given: o.Time, Unreached: []string{}, Confirmed: Confirmed{Missing: []GuardSeen{}, Flights: Flights{Open: []OpenSeen{}}}, Runtimes: []RuntimePart{}}
}

// Add adds what a process says.
func (r *Receipt) Add(process string, p Part) {
	if p.Enforced == 0 {
		r.Unreached = append(r.Unreached, process+": it does not know the order yet")
	} else {
		r.Members++
		r.Since = max(r.Since, p.Enforced)
	}
	if p.Words == nil { // a member of an earlier version
		r.Confirmed.add(p.Confirmed)
	} else {
		r.words, r.More = append(r.words, p.Words...), r.More+p.More
	}
	r.Observed += p.Observed
	r.addRuntimes(p.Runtimes)
}

// Miss notes a process that could not be asked.
func (r *Receipt) Miss(why string) { r.Unreached = append(r.Unreached, why) }

// Close works out whether the receipt is complete, when all processes were asked.
func (r *Receipt) Close() *Receipt {
	r.Confirmed.add(confirmedBy(r.words, 0))
	r.Complete = r.Members > 0 && len(r.Unreached) == 0 && len(r.Missing) == 0 && r.More == 0
	if r.Since = max(r.Since, r.Last); !r.Complete {
		r.Since = 0
	}
	return r
}

// Desk makes the parts of this process. Book and Guards are set before anything is called. Any
// goroutine may use it.
type Desk struct {
	Book     *Book
	Guards   *Guards
	Runtimes Runtimes // nil for none

	mu       sync.Mutex
	enforced map[string]enforcement // by id of the order
}

// enforcement is since when this process enforces the newest record of an order.
type enforcement struct {
	order    *byhand.Order
	verdict  *events.Verdict
	at       events.Stamp
	observed int64
}

// Changed notes that this process enforces a record, see Book.Changed.
func (d *Desk) Changed(o *byhand.Order) {
	now := d.Book.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.enforced == nil {
		d.enforced = make(map[string]enforcement)
	}
	for id, e := range d.enforced {
		if !d.Book.remembers(e.order) {
			delete(d.enforced, id)
		}
	}
	if old, ok := d.enforced[o.ID()]; ok && !newer(o, old.order) {
		return
	}
	d.enforced[o.ID()] = enforcement{order: o, verdict: o.Verdict(), at: now}
}

// Observe looks whether a call that is reported is one of a scope that was stopped before it began.
// Checks are no such report: those that are refused are no calls, and those that were allowed were
// allowed before.
func (d *Desk) Observe(ev *events.Event) {
	if ev.Ask || ev.Kind != events.AgentCall && ev.Kind != events.ToolCall || len(d.Book.active()) == 0 {
		return
	}
	c := guard.CallIn(ev)
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, e := range d.enforced {
		if ev.Time > e.at && e.order.Stops(ev.Time) && guard.StopsByHand(e.verdict, &c) {
			e.observed++
			d.enforced[id] = e
		}
	}
}

// Part is what this process says of the order with a verdict.
func (d *Desk) Part(verdict string) Part {
	d.mu.Lock()
	var p Part
	var order *byhand.Order
	stops := true
	for _, e := range d.enforced {
		if e.order.VerdictID() == verdict {
			order = e.order
			p.Enforced, p.Observed, stops = events.RFC3339(e.at), e.observed, e.order.Order == byhand.Stop
		}
	}
	d.mu.Unlock()
	if order != nil && d.Runtimes != nil {
		p.Runtimes = d.Runtimes(order)
	}
	p.Words, p.More = d.Guards.Words(verdict, stops, d.Book.Now())
	p.Confirmed = confirmedBy(p.Words, p.More)
	return p
}

// Ratio is the least share of the guards of this process that have confirmed an order in force; 1
// without any.
func (d *Desk) Ratio() float64 {
	ratio := 1.0
	for _, o := range d.Book.List(false) {
		c := d.Guards.Confirm(o.VerdictID(), true, d.Book.Now())
		if all := c.Guards + len(c.Missing) + c.More; all > 0 {
			ratio = min(ratio, float64(c.Guards)/float64(all))
		}
	}
	return ratio
}
