package api

import (
	"context"
	"net/http"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/events/byhand"
)

// drillsPath is where the switch is thrown in shadow.
const drillsPath = "/v1/order-drills"

// The bounds of how long a drill waits for confirmations.
const (
	drillWait    = 10 * time.Second
	longestDrill = 30 * time.Second // less than an answer may take
)

// drills serves them.
type drills struct{ handOrders }

func (d drills) routes() []route {
	return []route{{"POST", drillsPath, operator, limited(4, d.serveDrill)}}
}

// OrderDrill is the body of POST /v1/order-drills.
type OrderDrill struct {
	Scope  byhand.Scope `json:"scope"`
	Reason string       `json:"reason"`
	By     string       `json:"by,omitempty"`
	WaitS  int64        `json:"wait_s,omitempty"` // for confirmations; 0: 10 seconds
}

// serveDrill is POST /v1/order-drills: it reports which processes and guards would not have obeyed a
// stop of the scope.
func (d drills) serveDrill(w http.ResponseWriter, r *http.Request) error {
	var asked OrderDrill
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	by, err := signed(r, asked.By, asked.Reason)
	if err != nil {
		return err
	}
	wait := time.Duration(asked.WaitS) * time.Second
	switch {
	case asked.WaitS == 0:
		wait = drillWait
	case asked.WaitS < 0 || wait > longestDrill:
		return &problem.Error{Status: http.StatusBadRequest, Field: "wait_s", Detail: "wait_s has to be from 1 to 30 seconds"}
	}
	o := byhand.DrillOf(asked.Scope)
	o.By, o.Reason = by, asked.Reason
	if o.Scope.Kind == "" || asked.Scope.Kind == "" {
		return &problem.Error{Status: http.StatusBadRequest, Field: "scope", Detail: "scope is missing"}
	}
	if len(visitOf(r.Context()).who.Orders()) > 0 {
		return &problem.Error{Status: http.StatusForbidden, Detail: "this principal may give orders within some scopes only"}
	}
	if record := visitOf(r.Context()).order; record != nil {
		record.Kind, record.Flow = "order.drill", asked.Scope.String()
	}
	report, err := DrillOf(d.Server).Run(r.Context(), asked.Scope, by, asked.Reason, wait)
	if err != nil {
		return handProblem(err)
	}
	return answer(w, report)
}

// DrillOf returns what runs drills at a server that serves.
func DrillOf(s *Server) *orders.Drill {
	h := handOrders{s}
	return &orders.Drill{Book: s.parts.Orders.Book, Clock: s.clock, Receipt: h.receipt}
}

// ReceiptOf returns what makes receipts at a server that serves.
func ReceiptOf(s *Server) func(context.Context, *byhand.Order) *orders.Receipt {
	return handOrders{s}.receipt
}
