package budgets

import (
	"weir/events"
)

// View is an account for people and programs. Amounts are in the unit.
type View struct {
	Budget   string         `json:"budget"`
	Scope    string         `json:"scope"`
	Value    string         `json:"value"`
	Measure  string         `json:"measure"`
	Unit     events.Unit    `json:"unit"`
	Window   string         `json:"window"`
	Start    events.RFC3339 `json:"start"`
	End      events.RFC3339 `json:"end,omitzero"` // of a window of the calendar
	Spent    float64        `json:"spent"`
	Reserved float64        `json:"reserved"`
	Left     *float64       `json:"left,omitempty"`  // nil for a budget without hard
	Limit    *float64       `json:"limit,omitempty"` // what was granted included
	Granted  float64        `json:"granted,omitempty"`
	Beyond   float64        `json:"beyond,omitempty"` // reported beyond the budget, in the window
	Refused  int64          `json:"refused"`          // checks, in the window
	State    string         `json:"state"`            // ok, near or used_up
	Action   events.Action  `json:"action"`
	Last     events.RFC3339 `json:"last"`
	Before   *PastView      `json:"before,omitempty"` // the window before
}

// Key is the key of the account.
func (v *View) Key() string { return Prefix + v.Budget + ":" + v.Value }

// PastView is a window that is over.
type PastView struct {
	Start   events.RFC3339 `json:"start"`
	End     events.RFC3339 `json:"end"`
	Spent   float64        `json:"spent"`
	Granted float64        `json:"granted,omitempty"`
}

// View returns the account of the value at a time. It changes nothing: a window that is over by then
// is shown as the one before.
func (a *Account) View(b *Budget, value string, at events.Stamp) View {
	now := *a
	now.claims = append([]claim(nil), a.claims...)
	if at > now.Last {
		now.Roll(b, at, 0)
	}
	f := b.Measure.Figure
	v := View{Budget: b.Name, Scope: b.Scope.String(), Value: value, Measure: b.Measure.String(), Unit: b.Measure.Unit(), Window: b.Window.Text(),
		Start: events.RFC3339(now.Start), End: events.RFC3339(now.End), Spent: f(now.Spent), Reserved: f(now.Reserved()), Granted: f(now.Granted),
		Beyond: f(now.Beyond), Refused: int64(now.Refused), State: "ok", Action: b.Action, Last: events.RFC3339(now.Last)}
	limit := now.Limit(b)
	if b.Soft != Off && now.Spent >= b.Soft {
		v.State = "near"
	}
	if limit != Off {
		left, most := f(max(0, now.Room(b))), f(limit)
		v.Left, v.Limit = &left, &most
		if now.Used(b) {
			v.State = "used_up"
		}
	}
	if p := &now.Before; p.End != 0 {
		v.Before = &PastView{events.RFC3339(p.Start), events.RFC3339(p.End), f(p.Spent), f(p.Granted)}
	}
	return v
}
