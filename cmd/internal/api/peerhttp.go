package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
)

// forwarding is the group of routes that answer other members of a group. Its fields are set when
// the routes are made.
type forwarding struct {
	checker  Checks
	members  Members // nil when this process is alone
	trust    gate.Trust
	peer     *peer.Peer
	requests int // see Options.Requests
}

// forwarding returns the group.
func (a *Server) forwarding() *forwarding {
	return &forwarding{checker: a.parts.Checks, members: a.parts.Members, trust: a.trust, peer: a.o.Peer, requests: a.o.Requests}
}

// routes are those of the group.
func (f *forwarding) routes() []route {
	return []route{
		{"POST", check.MemberPath, member, limited(f.requests*checksPerRequest, f.toMember(f.answerForwarded))},
		{"POST", check.TreePath, member, limited(f.requests*checksPerRequest, f.toMember(f.answerTreeAsk))},
	}
}

// toMember verifies that another member sends the request, and signs the answer.
// Where the group has no keys, admit has looked at the visitor.
func (f *forwarding) toMember(serve func(r *http.Request, body []byte) (status int, answer []byte, err error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := readBody(w, r, events.MaxEventBytes)
		if err != nil {
			return err
		}
		keys := f.peer.Keys()
		if len(keys.Keys) > 0 {
			if err := f.peer.Verify(r, body); err != nil {
				return &problem.Error{Status: http.StatusUnauthorized, Detail: err.Error()}
			}
		}
		status, answer, err := serve(r, body)
		if err != nil {
			return err
		}
		if len(keys.Keys) > 0 {
			f.peer.SignAnswer(w, r, status, answer)
		}
		if len(answer) > 0 {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer) // an error means that the caller is gone
		return nil
	}
}

// answerForwarded answers a check that another member passes on, from the fold of this
// member. It validates the event again.
func (f *forwarding) answerForwarded(r *http.Request, raw []byte) (int, []byte, error) {
	var ev events.Event
	if err := events.Decode(raw, &ev); err != nil {
		return 0, nil, err
	}
	if err := gate.Ask.Admit(&ev); err != nil {
		return 0, nil, err
	}
	// A claim that the first member has marked stays marked, since the mark is in the
	// event.
	if f.trust.Weigh(gate.Ask, &ev) {
		raw = ev.AppendJSON(nil)
	}
	// Any other event would get no verdict, and the request would wait until its deadline.
	if !ev.Ask || !ev.Kind.Asked() {
		return 0, nil, &problem.Error{Status: http.StatusBadRequest, Detail: "only asks are passed on"}
	}
	// What is not folded here any more, after a hand-over, is an error: an ask is passed on
	// once.
	if f.members == nil {
		return 0, nil, &problem.Error{Status: http.StatusNotFound, Detail: "this weir is not a member of a group; use /v1/check"}
	}
	if err := f.members.Folds(ev.FlowKey()); err != nil {
		return 0, nil, err
	}
	v, err := f.checker.CheckHere(&check.Request{Context: r.Context(), Event: &ev, Raw: raw})
	// What is wrong with the check is an answer. The other member would take an error for a member that does not
	// answer, and a dispatcher that gets no answer makes the call.
	if e, ok := errors.AsType[*check.Error](err); ok && e.Status == http.StatusConflict {
		refused, err := json.Marshal(e)
		return e.Status, refused, err
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, v.AppendJSON(nil), nil
}

// answerTreeAsk answers what a tree that is folded here says.
// 204 says that the tree has not come to that record yet; the caller comes again (see
// decision 68).
func (f *forwarding) answerTreeAsk(r *http.Request, request []byte) (int, []byte, error) {
	if f.members == nil {
		return 0, nil, &problem.Error{Status: http.StatusNotFound, Detail: "this weir is not a member of a group"}
	}
	word, err := f.members.TreeHere(r.Context(), request)
	switch {
	case err != nil:
		return 0, nil, err
	case len(word) == 0:
		return http.StatusNoContent, nil, nil
	}
	return http.StatusOK, word, nil
}
