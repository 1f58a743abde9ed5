package guard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// unseen notes flows that are only checked, and looks a few of them up at weir: orders about a flow
// of which no event comes never come either. Any goroutine may use it.
type unseen struct {
	// open is whether the next check is noted. The first checks are, and then one between two looks,
	// so that Check reads one flag.
	open  atomic.Bool
	mu    sync.Mutex
	first int // checks that are still noted without a pause
	left  int // looks at weir
	flows [3]checkedFlow
}

type checkedFlow struct {
	name   string
	checks int
	since  time.Time
}

const (
	enoughChecks = 3
	// heardWithin is the time within which telemetry is expected to report a call that was checked.
	heardWithin = 5 * time.Second
	// forgetUnseen makes room for other flows.
	forgetUnseen = time.Minute
	firstChecks  = 100
)

func newUnseen() *unseen {
	u := &unseen{first: firstChecks, left: len(unseen{}.flows)}
	u.open.Store(true)
	return u
}

// note counts a check of the flow.
func (u *unseen) note(flow string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first--; u.first <= 0 {
		u.open.Store(false)
	}
	var room *checkedFlow
	for i := range u.flows {
		f := &u.flows[i]
		if f.name == flow {
			f.checks++
			return
		}
		if f.name == "" && room == nil {
			room = f
		}
	}
	if room != nil {
		*room = checkedFlow{flow, 1, now}
	}
}

// reported is called for a flow whose calls weir gets from this guard.
func (u *unseen) reported(flow string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.flows {
		if u.flows[i].name == flow {
			u.flows[i] = checkedFlow{}
		}
	}
}

// due returns a flow to look up, "" for none. At the end of the guard it does not wait for telemetry.
func (u *unseen) due(now time.Time, ends bool) (flow string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.flows {
		f := &u.flows[i]
		age := now.Sub(f.since)
		switch {
		case f.name == "":
		case f.checks >= enoughChecks && (ends || age > heardWithin) && flow == "" && u.left > 0:
			flow = f.name
			u.left--
			*f = checkedFlow{}
		case f.checks < enoughChecks && age > forgetUnseen:
			*f = checkedFlow{}
		}
	}
	u.open.Store(u.left > 0)
	return flow
}

func (u *unseen) isWatching() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left > 0
}

func (u *unseen) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = 0
	u.open.Store(false)
}

// lookUp runs until ctx ends or enough flows were looked up. It logs one flow that weir has never
// seen.
func (g *Guard) lookUp(ctx context.Context) {
	next := time.NewTicker(time.Second)
	defer next.Stop()
	for ends := false; ; {
		flow := ""
		if g.state.Load() != never {
			flow = g.unseen.due(g.now(), ends)
		}
		if flow != "" {
			err := g.findFlow(ctx, flow)
			if errors.Is(err, errNoFlow) {
				g.unseen.stop()
				g.logger.Warn("orders are asked for a flow; weir has never seen it: report its calls (Begin and Finish, package guarded), or pass the correlation id that your telemetry reports", "flow", flow)
			} else if err != nil && ends {
				return
			}
			continue
		}
		if ends || !g.unseen.isWatching() {
			return
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			ends = true // a program that ends early learns it, too
		}
	}
}

var errNoFlow = errors.New("weir has no such flow")

// findFlow returns errNoFlow if weir has no event of the flow.
func (g *Guard) findFlow(ctx context.Context, flow string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.AskTimeout)
	defer cancel()
	resp, err := g.do(ctx, http.MethodGet, "/v1/flows/"+url.PathEscape(flow), nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode == http.StatusNotFound {
		return errNoFlow
	}
	return nil
}
