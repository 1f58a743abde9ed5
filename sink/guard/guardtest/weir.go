// Package guardtest is a weir for the tests of dispatchers: it holds given orders, records reports, and can fail on
// request. It needs no port and no process: a guard reaches it through the Client, also inside a testing/synctest
// bubble.
package guardtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/events"
	"weir/sink/sign"
)

// Weir is a fake weir that knows what a test gives it. The zero Weir is not ready; New makes
// one. Any goroutine may use it.
type Weir struct {
	mu    sync.Mutex
	state State
	// Who waits takes the channel and the state under one lock, so that no change is missed.
	changed  chan struct{} // closed whenever something has changed
	verdicts []given       // the place of each is its id
	keys     sign.Keys
	// Both in the order in which they came.
	reports []events.Event
	asks    []events.Event
	// nil allows all.
	answer func(*events.Event) *events.Verdict
	// As the body of GET /v1/limits.
	limits string
	// Asks and events are refused with status 503.
	full bool
}

// given is a verdict as JSON, with its signature.
type given struct{ verdict, signature string }

// State is how a Weir behaves towards connections.
type State uint8

// The states.
const (
	Up     State = iota
	Away         // connections are refused, and those that stand are cut
	Mute         // connections are taken, and nothing is ever said on them
	Erred        // every request is answered with status 500
	Behind       // all is answered, but the fold is not up to date
)

// URL is the address that guards are given. It leads nowhere but through the Client.
const URL = "http://weir.test"

// Heartbeat is how often a stream says that it is alive.
const Heartbeat = time.Second

// New returns a weir that knows no orders and allows every call. It belongs to the
// bubble that it is made in.
func New() *Weir {
	return &Weir{changed: make(chan struct{}), limits: `{"document":{"rules":{"max_total_calls":{"max":100},"call_rate_per_flow":{"max":60,"window":"1m"}}}}`}
}

// Give publishes a verdict. What is missing is filled in: id, mode, revision, and the
// scope of a flow.
// An open stream gets it at once, a later stream from the position that it names.
func (w *Weir) Give(v events.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.verdicts)
	if v.ID == "" {
		v.ID = "v-" + strconv.Itoa(n)
	}
	if v.Mode == "" {
		v.Mode = "enforce"
	}
	if v.Revision == 0 {
		v.Revision = int64(n + 1)
	}
	if v.Scope.Kind == "" {
		v.Scope = events.Scope{Kind: events.ScopeFlow, ID: v.CorrelationID}
	}
	// Signed as it goes out, so the bytes on the stream are those that the signature is about.
	text := v.AppendJSON(nil)
	w.verdicts = append(w.verdicts, given{string(text), w.keys.Sign(text)})
	w.note()
}

// SetKeys sets the keys that verdicts are signed with from now on; none: they are not.
func (w *Weir) SetKeys(keys sign.Keys) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = keys
}

// Repeat sends a verdict again, the n-th that was given, from 0.
// Its bytes are those of before, revision and signature included: an eavesdropper can do
// the same.
func (w *Weir) Repeat(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts = append(w.verdicts, w.verdicts[n])
	w.note()
}

// Answer sets what weir says to those who ask; nil allows everything.
func (w *Weir) Answer(fn func(*events.Event) *events.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = fn
}

// SetLimits sets the limits that are sent, as the rules of a limits document.
// A guard gets them with its next request for the limits.
func (w *Weir) SetLimits(rules string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = `{"document":{"rules":` + rules + `}}`
}

// SetFull makes weir refuse to take anything in, as when its disk is full. It still
// sends what it has.
func (w *Weir) SetFull(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// Set changes how weir behaves from now on. Streams that stand are cut, except that a
// weir that goes mute leaves them as they are and says nothing more.
func (w *Weir) Set(s State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	w.note()
}

// Forget makes weir one that has lost its log.
// Streams go on, and the place that they name is no longer known here.
func (w *Weir) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts = nil
	w.note()
}

// Reports returns the events that were sent, acknowledgements for the most part.
// A copy, which the test may keep.
func (w *Weir) Reports() []events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]events.Event(nil), w.reports...)
}

// Asks returns the calls that were asked for.
func (w *Weir) Asks() []events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]events.Event(nil), w.asks...)
}

// note wakes all who wait. The caller holds the lock.
// Who waits takes a new channel afterwards.
func (w *Weir) note() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// look returns both as of one moment, so that a caller that waits on the channel misses no change
// after it.
func (w *Weir) look() (State, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

// ServeHTTP answers as weir does, for tests that want a real port.
func (w *Weir) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	// A connection to a mute weir hangs until the weir speaks again.
	for {
		state, changed := w.look()
		switch state {
		// The connection is cut, as far as a handler can.
		case Away:
			panic(http.ErrAbortHandler)
		case Erred:
			http.Error(rw, `{"title":"Internal Server Error","status":500,"detail":"as the test wants"}`, http.StatusInternalServerError)
			return
		case Mute:
			select {
			case <-changed:
				continue
			case <-r.Context().Done():
				return
			}
		}
		break
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/verdicts":
		w.stream(rw, r)
	// Whatever it is asked with: there are no tokens here.
	case "GET /v1/limits":
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = io.WriteString(rw, w.limits)
	case "POST /v1/check":
		w.check(rw, r)
	case "POST /v1/events":
		w.take(rw, r)
	default:
		if name, ok := strings.CutPrefix(r.URL.Path, "/v1/flows/"); ok && r.Method == http.MethodGet {
			w.flow(rw, name)
			return
		}
		// The only order of a person that guards ask for.
		flow, isFlow := strings.CutPrefix(r.URL.Path, "/v1/flows/")
		flow, isRelease := strings.CutSuffix(flow, "/release")
		if !isFlow || !isRelease || r.Method != http.MethodPost {
			http.NotFound(rw, r)
			return
		}
		w.release(rw, r, flow)
	}
}

// flow answers whether an event of the flow was reported or asked about.
func (w *Weir) flow(rw http.ResponseWriter, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := func(ev events.Event) bool { return ev.CorrelationID == name && ev.Kind != events.VerdictAck }
	if !slices.ContainsFunc(w.asks, of) && !slices.ContainsFunc(w.reports, of) {
		rw.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(rw, `{"detail":"there is no such flow"}`)
		return
	}
	_ = json.NewEncoder(rw).Encode(map[string]string{"correlation_id": name})
}

// release notes what a person orders as the event that weir makes of it.
func (w *Weir) release(rw http.ResponseWriter, r *http.Request, flow string) {
	var order struct {
		Reason string `json:"reason"`
		By     string `json:"by"`
		ForS   int64  `json:"for_s"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(rw, `{"detail":"this is no order"}`, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, events.Event{ID: "order-" + strconv.Itoa(len(w.reports)), Kind: events.OperatorRelease, CorrelationID: flow,
		Operator: &events.Operator{Reason: order.Reason, By: order.By, For: time.Duration(order.ForS) * time.Second}})
	w.note()
	rw.WriteHeader(http.StatusAccepted)
}

// stream sends all verdicts from the position that the guard names, and then each new one, until
// the guard or the state ends it.
func (w *Weir) stream(rw http.ResponseWriter, r *http.Request) {
	next := 0
	// The id of an event on the stream is the place of its verdict, so a position is good for
	// this weir until it forgets.
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		n, err := strconv.Atoi(id)
		w.mu.Lock()
		known := err == nil && n >= 0 && n < len(w.verdicts)
		w.mu.Unlock()
		if !known {
			// The real weir refuses unknown positions, too: the guard has to begin anew.
			http.Error(rw, `{"detail":"this is not a position"}`, http.StatusBadRequest)
			return
		}
		next = n + 1
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(rw, "retry: 1000\n\n")
	control := http.NewResponseController(rw)
	beat := time.NewTicker(Heartbeat)
	defer beat.Stop()
	for {
		w.mu.Lock()
		state, changed := w.state, w.changed
		var news []given
		// After Forget there may be fewer verdicts than this stream has sent.
		if (state == Up || state == Behind) && next <= len(w.verdicts) {
			news = w.verdicts[next:]
		}
		w.mu.Unlock()
		if state == Away || state == Erred {
			return
		}
		for _, v := range news {
			fmt.Fprintf(rw, "id: %d\n", next)
			if v.signature != "" {
				fmt.Fprintf(rw, "%s: %s\n", sign.Field, v.signature)
			}
			fmt.Fprintf(rw, "data: %s\n\n", v.verdict)
			next++
		}
		// A sign of life follows at once, so a guard knows that it has heard everything.
		switch state {
		case Up:
			_, _ = io.WriteString(rw, ": heartbeat\n\n")
		case Behind:
			_, _ = io.WriteString(rw, ": behind\n\n")
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
	}
}

// check asks the function of the test without the lock, so that it may use the weir.
// It answers as POST /v1/check does: an allowance in a verdict, a refusal as a problem.
func (w *Weir) check(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	// The event aliases body, which is the request's own.
	var ev events.Event
	if err := events.Decode(body, &ev); err != nil {
		http.Error(rw, `{"detail":"`+strings.ReplaceAll(err.Error(), `"`, "'")+`"}`, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	// What is refused for want of space was not asked, as far as the test sees.
	full, answer := w.full, w.answer
	if !full {
		w.asks = append(w.asks, ev)
	}
	w.mu.Unlock()
	if full {
		http.Error(rw, `{"status":503,"detail":"there is too little free disk space to take anything in"}`, http.StatusServiceUnavailable)
		return
	}
	v := &events.Verdict{ID: "ask", Mode: "enforce", Action: "allow", Reason: "allowed", CorrelationID: ev.CorrelationID}
	if answer != nil {
		if said := answer(&ev); said != nil {
			v = said
		}
	}
	if v.Action != "deny" && v.Action != "halt" && v.Action != "hold" && v.Action != "throttle" {
		_, _ = rw.Write(append(v.AppendJSON([]byte(`{"verdict":`)), '}'))
		return
	}
	status := v.HTTPStatus
	if status == 0 {
		status = http.StatusForbidden
	}
	rw.Header().Set("Content-Type", "application/problem+json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]any{"instance": "urn:weir:verdict:" + v.ID, "reason_code": v.Reason, "action": v.Action, "limit": v.Limit,
		"observed": v.Observed, "unit": v.Unit, "detail": v.Message, "agent_message": v.AgentMessage, "retry_after_s": v.RetryAfterS, "status": status, "remaining": v.Remaining})
}

// take takes all lines or none.
func (w *Weir) take(rw http.ResponseWriter, r *http.Request) {
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	var got []events.Event
	for lines.Scan() {
		var ev events.Event
		if err := events.Decode(bytes.Clone(lines.Bytes()), &ev); err != nil {
			http.Error(rw, `{"detail":"`+strings.ReplaceAll(err.Error(), `"`, "'")+`"}`, http.StatusBadRequest)
			return
		}
		got = append(got, ev)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		http.Error(rw, `{"status":503,"detail":"there is too little free disk space to take anything in"}`, http.StatusServiceUnavailable)
		return
	}
	w.reports = append(w.reports, got...)
	w.note()
	rw.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(rw, `{"accepted":%d,"refused":[]}`, len(got))
}
