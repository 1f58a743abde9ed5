package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/sink/guard"
	"weir/sink/guard/cancel"
	wrapped "weir/sink/guard/guarded"
)

// guardOf returns a guard that follows weir.
func (h hand) guardOf(name string) *guard.Guard {
	h.t.Helper()
	g, err := guard.New(guard.Options{URL: "http://" + h.Addr(), Source: name, Quiet: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(g.Close)
	if err := g.Wait(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return g
}

// receiptWith waits for a receipt that fits.
func (h hand) receiptWith(scope string, fits func(*orders.Receipt) bool) orders.Receipt {
	h.t.Helper()
	for {
		r := h.receipt(scope)
		if fits(&r) {
			return r
		}
		if h.t.Context().Err() != nil {
			h.t.Fatalf("the receipt stays %+v", r)
		}
		runtime.Gosched()
	}
}

// TestLongCallOfAnMCPServerIsCancelled has a client of the official SDK call a tool that does not end: the
// stop reaches the tool as notifications/cancelled.
func TestLongCallOfAnMCPServerIsCancelled(t *testing.T) {
	t.Parallel()
	h := beginHand(t, Options{Clock: clock.System{}})
	began, ended := make(chan struct{}), make(chan error, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, nil, ctx.Err()
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "shop", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	g := h.guardOf("shop")
	failed := make(chan error, 1)
	go func() {
		_, err := wrapped.Tool(context.Background(), g, guard.Call{Flow: "f", From: "a", Tool: "wait"}, []byte(`{}`), func(ctx context.Context) ([]byte, error) {
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{}})
			return nil, err
		})
		failed <- err
	}()
	<-began
	h.stopped(`{"scope":"tool:wait","reason":"a test","by":"ann"}`)
	if err := <-failed; !strings.Contains(err.Error(), "Stopped by ann") {
		t.Errorf("the call ends by %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool ends by %v", err)
	}
	r := h.receiptWith("tool:wait", func(r *orders.Receipt) bool { return r.Flights.Ended == 1 })
	if r.Flights.Cancelled != 1 || len(r.Flights.Open) != 0 {
		t.Errorf("the receipt has %+v", r.Flights)
	}
}

// TestAStreamIsCutByAGateway has a reverse proxy in Go cut the answer of a model that streams without end.
func TestAStreamIsCutByAGateway(t *testing.T) {
	t.Parallel()
	h := beginHand(t, Options{Clock: clock.System{}})
	left := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: word\n\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(model.Close)
	to, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	gateway := httptest.NewServer(wrapped.Gateway(h.guardOf("gateway"), func(r *http.Request) guard.Call {
		return guard.Call{Flow: r.Header.Get("X-Correlation-Id"), From: "a", To: "model", Model: "big"}
	}, proxy))
	t.Cleanup(gateway.Close)
	get := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Correlation-Id", "f")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := get()
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); line != "data: word\n" {
		t.Fatalf("%q, %v", line, err)
	}
	h.stopped(`{"scope":"model:big","reason":"a test","by":"ann"}`)
	if _, err := io.Copy(io.Discard, in); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ends by %v", err)
	}
	<-left
	h.receiptWith("model:big", func(r *orders.Receipt) bool { return r.Complete && r.Flights.Cancelled == 1 })
	if resp := get(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request after the stop is answered by %s", resp.Status)
	}
}

// TestReceiptNamesWhatWasNotCancelled has three calls that a stop does not end: one that the guard
// cannot cancel, one whose cancelling fails, and one that goes on all the same.
func TestReceiptNamesWhatWasNotCancelled(t *testing.T) {
	t.Parallel()
	h := beginHand(t, Options{Clock: clock.System{}})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `"method":"CancelTask","params":{"id":"task-1"}`) {
			t.Errorf("the agent is sent %s", text)
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"weir-cancel","error":{"code":-32603,"message":"not today"}}`)
	}))
	t.Cleanup(agent.Close)
	g := h.guardOf("shop")
	begin := func(to string) *guard.Begun { return g.Begin(t.Context(), guard.Call{Flow: "f", From: "a", To: to}) }
	begin("deaf")
	begin("remote").OnStop(cancel.Remote{URL: agent.URL}.A2ATask("task-1"))
	begin("slow").Context()
	h.stopped(`{"scope":"all","reason":"a test","by":"ann"}`)
	late := begin("later") // refused
	late.OnStop(func(context.Context) error { panic("not in flight") })
	r := h.receiptWith("all", func(r *orders.Receipt) bool {
		return r.Flights.Running == 3 && strings.Contains(fmt.Sprint(r.Flights.Open), "not today")
	})
	var got []string
	for _, c := range r.Flights.Open {
		got = append(got, strings.TrimSpace(fmt.Sprint(c.Guard, " ", c.Flow, " ", c.From, " ", c.To, " ", c.Cancel, " ", c.Why)))
	}
	want := "[shop f a deaf shop f a remote failed not today (-32603) shop f a slow requested]"
	if fmt.Sprint(got) != want {
		t.Errorf("the receipt names %v, want %s", got, want)
	}
}
