package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/orders"
	"weir/events/byhand"
)

// crowd is a trial of what guards cost a weir that do nothing but follow it and send heartbeats.
type crowd struct {
	guards int
	lasts  time.Duration // of each part
	out    io.Writer

	weir   *member
	token  string
	client *http.Client
	held   atomic.Value // the id of the verdict that all guards enforce, a string
	beats  atomic.Int64
	failed atomic.Int64
}

// mostPrice is the share of a core that heartbeats and receipts may take.
const mostPrice = 0.01

func heartbeatsCommand(ctx context.Context, args []string) error {
	c := &crowd{out: os.Stdout}
	fs := flag.NewFlagSet("trial heartbeats", flag.ExitOnError)
	fs.IntVar(&c.guards, "guards", 1000, "that follow and send heartbeats")
	fs.DurationVar(&c.lasts, "for", 20*time.Second, "each part")
	if err := fs.Parse(args); err != nil {
		return err
	}
	price, err := c.run(ctx)
	if err == nil && price >= mostPrice {
		err = fmt.Errorf("heartbeats and receipts take %.4f of a core, want less than %.2f", price, mostPrice)
	}
	return err
}

// run measures three parts one after the other, and returns what heartbeats and receipts take of a core.
func (c *crowd) run(ctx context.Context) (price float64, err error) {
	dir, err := os.MkdirTemp("", "weir-heartbeats-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := c.start(dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.weir.kill()) }()
	err = eventually(ctx, time.Minute, "weir to be ready", func() (bool, error) { _, ready := c.weir.current().times(); return ready > 0, nil })
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var following atomic.Int64
	beating := make(chan struct{})
	c.held.Store("")
	for n := range c.guards {
		all.Go(func() { c.guard(ctx, n, &following, beating) })
	}
	err = eventually(ctx, time.Minute, "all guards to follow", func() (bool, error) { return following.Load() == int64(c.guards), nil })
	if err != nil {
		return 0, err
	}
	alone, err := c.measure(ctx, "guards that follow, without heartbeats", nil)
	if err != nil {
		return 0, err
	}
	close(beating)
	if _, err := c.measure(ctx, "with heartbeats", nil); err != nil {
		return 0, err
	}
	if err := c.stop(ctx); err != nil {
		return 0, err
	}
	whole, err := c.measure(ctx, "with an order in force, and a receipt each second", c.receipt)
	if err != nil {
		return 0, err
	}
	if n := c.failed.Load(); n > 0 {
		return 0, fmt.Errorf("%d requests failed", n)
	}
	fmt.Fprintf(c.out, "heartbeats and receipts: %.4f of a core\n", whole-alone)
	return whole - alone, nil
}

func (c *crowd) start(dir string) error {
	binary, err := build(dir)
	if err != nil {
		return err
	}
	c.token = strings.Repeat("0123456789", 4)
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(c.token), 0o600); err != nil {
		return err
	}
	if c.weir, err = newMember(binary, dir, "weir", "", "", "--admin-token-file", file, "--self-test", "0"); err != nil {
		return err
	}
	c.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: c.guards, IdleConnTimeout: time.Minute}}
	return c.weir.start()
}

// guard follows the verdicts, and sends heartbeats on a connection of its own from when beating is closed.
func (c *crowd) guard(ctx context.Context, n int, following *atomic.Int64, beating <-chan struct{}) {
	stream := &http.Client{Transport: &http.Transport{}}
	defer stream.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.weir.listen+"/v1/verdicts", http.NoBody)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(byhand.GuardHeader, fmt.Sprintf("%d guard-%d", n, n))
	resp, err := stream.Do(req)
	if err != nil {
		c.failed.Add(1)
		return
	}
	defer resp.Body.Close()
	following.Add(1)
	go func() {
		for in := bufio.NewReader(resp.Body); ; {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	select {
	case <-beating:
	case <-ctx.Done():
		return
	}
	own := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	defer own.CloseIdleConnections()
	// Guards start at different moments.
	next := time.NewTimer(orders.BeatEvery * time.Duration(n) / time.Duration(c.guards))
	for {
		select {
		case <-next.C:
			next.Reset(orders.BeatEvery)
		case <-ctx.Done():
			return
		}
		if err := c.beat(ctx, own, n); err != nil && ctx.Err() == nil {
			c.failed.Add(1)
		}
	}
}

func (c *crowd) beat(ctx context.Context, own *http.Client, n int) error {
	b := orders.Beat{Guard: fmt.Sprint("guard-", n), Instance: fmt.Sprint(n), Language: "go", Held: []string{}}
	if held := c.held.Load().(string); held != "" {
		b.Held = []string{held}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.weir.listen+"/v1/guards", strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	status, _, err := answerTo(own, req)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("a heartbeat: status %d", status)
	}
	c.beats.Add(1)
	return err
}

// stop stops a scope that no call has, and waits until all guards have confirmed it.
func (c *crowd) stop(ctx context.Context) error {
	var o struct {
		Verdict string `json:"verdict_id"`
	}
	if err := c.request(ctx, http.MethodPost, "/v1/orders", `{"scope":"agent:nobody","reason":"a trial","by":"ann","for_s":3600}`, &o); err != nil {
		return err
	}
	c.held.Store(o.Verdict)
	return eventually(ctx, time.Minute, "all guards to confirm", func() (bool, error) {
		var r orders.Receipt
		err := c.request(ctx, http.MethodGet, "/v1/orders/agent:nobody/receipt", "", &r)
		return err == nil && r.Complete && r.Guards == c.guards, err
	})
}

func (c *crowd) receipt(ctx context.Context) error {
	var r orders.Receipt
	err := c.request(ctx, http.MethodGet, "/v1/orders/agent:nobody/receipt", "", &r)
	if err == nil && !r.Complete {
		err = fmt.Errorf("a receipt misses %d guards: %v", len(r.Missing)+r.More, r.Missing)
	}
	return err
}

func (c *crowd) request(ctx context.Context, method, path, body string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.weir.listen+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	status, text, err := answerTo(c.client, req)
	if err != nil || status != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s %s: status %d: %.300s", method, path, status, text))
	}
	return json.Unmarshal(text, v)
}

// measure returns what weir takes of a core in a part of the trial. Each second it calls fn, if there is one.
func (c *crowd) measure(ctx context.Context, what string, fn func(context.Context) error) (cores float64, err error) {
	pid := c.weir.current().cmd.Process.Pid
	began, before, beats := time.Now(), cpuOf(pid), c.beats.Load()
	next := time.NewTicker(time.Second)
	defer next.Stop()
	for time.Since(began) < c.lasts {
		select {
		case <-next.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if fn == nil {
			continue
		}
		if err := fn(ctx); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	cores = (cpuOf(pid) - before).Seconds() / took.Seconds()
	fmt.Fprintf(c.out, "%s: %.4f of a core, %.0f heartbeats a second\n", what, cores, float64(c.beats.Load()-beats)/took.Seconds())
	return cores, nil
}
