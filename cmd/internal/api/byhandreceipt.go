package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/events/byhand"
	"weir/sink/check"
)

// receiptPath is the path by which members of a group query the confirmations of an order.
const receiptPath = check.MemberPath + "/receipt"

// connected notes the guard that follows the verdicts by a request, if it says which it is.
func (h handOrders) connected(r *http.Request) {
	instance, name, ok := strings.Cut(r.Header.Get(byhand.GuardHeader), " ")
	guard, err := url.PathUnescape(name)
	b := orders.Beat{Guard: guard, Instance: instance}
	if ok && err == nil && b.Check() == nil {
		h.parts.Orders.Desk.Guards.Connected(PrincipalOf(r.Context()), guard, instance, h.parts.Orders.Book.Now())
	}
}

// serveReceipt is GET /v1/orders/{id}/receipt: whether the order has taken hold, from what processes
// and guards have acknowledged.
func (h handOrders) serveReceipt(w http.ResponseWriter, r *http.Request) error {
	o, err := h.find(r)
	if err != nil {
		return err
	}
	return answer(w, h.receipt(r.Context(), o))
}

// partTime is how long another process may take to say what it knows.
const partTime = 2 * time.Second

// receipt asks all processes at one time.
func (h handOrders) receipt(ctx context.Context, o *byhand.Order) *orders.Receipt {
	out := orders.NewReceipt(o)
	own := h.parts.Orders.Desk.Part(out.Verdict)
	out.Add("this process", own)
	if h.parts.Members == nil {
		return out.Close()
	}
	addresses, missed := h.parts.Members.Others(ctx)
	for _, why := range missed {
		out.Miss(why)
	}
	body, err := json.Marshal(partAsk{out.Verdict})
	if err != nil {
		out.Miss(err.Error())
		return out.Close()
	}
	for i, reply := range h.postEach(ctx, addresses, receiptPath, body) {
		var part orders.Part
		if reply.err == nil {
			reply.err = json.Unmarshal(reply.text, &part)
		}
		if reply.err != nil {
			out.Miss(fmt.Sprintf("%s: %v", addresses[i], reply.err))
			continue
		}
		out.Add(addresses[i], part)
		h.parts.Orders.Desk.Guards.Moved(own.Words, part.Words, h.parts.Orders.Book.Now())
	}
	return out.Close()
}

// partAsk is what one member asks another.
type partAsk struct {
	Verdict string `json:"verdict_id"`
}

// memberReply is the answer of another member.
type memberReply struct {
	text []byte
	err  error
}

// postEach sends a request to all addresses at one time, and returns their answers in this order.
func (h handOrders) postEach(ctx context.Context, addresses []string, path string, body []byte) []memberReply {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	replies := make([]memberReply, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			replies[i].err = h.faults.caught("POST "+path, func() (err error) {
				_, replies[i].text, err = h.o.Peer.Post(ctx, address, path, body)
				return err
			})
		})
	}
	group.Wait()
	return replies
}

// answerPart answers another member.
func (h handOrders) answerPart(_ *http.Request, body []byte) (int, []byte, error) {
	var asked partAsk
	if err := json.Unmarshal(body, &asked); err != nil {
		return 0, nil, &problem.Error{Status: http.StatusBadRequest, Detail: "want verdict_id: " + err.Error()}
	}
	text, err := json.Marshal(h.parts.Orders.Desk.Part(asked.Verdict))
	return http.StatusOK, text, err
}
