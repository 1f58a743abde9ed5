package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/weirtest"
)

// crowd is a trial of what guards cost a weir to which they send heartbeats, as those that follow Kafka do.
// A stream of verdicts costs the same with and without heartbeats, and a process has 256 of them.
type crowd struct {
	guards  int
	secure  bool          // by TLS
	lasts   time.Duration // of each part
	out     io.Writer
	profile string

	weir    *member
	metrics string // its address of metrics and profiles
	token   string
	client  *http.Client
	stopped chan struct{} // closed when all hold the order
	held    atomic.Value  // the id of the verdict that all guards enforce, a string
	checks  atomic.Bool   // are sent instead of heartbeats
	beats   atomic.Int64
	failed  atomic.Int64
}

// mostPrice is how many checks by request a second may take as much as all heartbeats and receipts do. Both
// take a multiple on a busy machine. On a quiet one a check takes 53 µs, so 100 of them take half a hundredth of a core.
const mostPrice = 100

func heartbeatsCommand(ctx context.Context, args []string) error {
	c := &crowd{out: os.Stdout}
	fs := flag.NewFlagSet("trial heartbeats", flag.ExitOnError)
	fs.IntVar(&c.guards, "guards", 1000, "that send heartbeats")
	fs.BoolVar(&c.secure, "tls", false, "send them by TLS")
	fs.DurationVar(&c.lasts, "for", 20*time.Second, "each part")
	fs.StringVar(&c.profile, "profile", "", "write a CPU profile of weir with an order in force to `FILE`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	price, err := c.run(ctx)
	if err == nil && price >= mostPrice {
		err = fmt.Errorf("heartbeats and receipts take as much as %.0f checks a second, want less than %d", price, mostPrice)
	}
	return err
}

// run measures parts one after the other, and returns how many checks a second take as much as heartbeats
// and receipts.
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
	c.held.Store("")
	c.stopped = make(chan struct{})
	alone, _, err := c.measure(ctx, "without guards", nil)
	if err != nil {
		return 0, err
	}
	for n := range c.guards {
		all.Go(func() { c.guard(ctx, n) })
	}
	err = eventually(ctx, time.Minute, "a heartbeat of each guard", func() (bool, error) { return c.beats.Load() >= int64(c.guards), nil })
	if err != nil {
		return 0, err
	}
	if _, _, err := c.measure(ctx, "without an order", nil); err != nil {
		return 0, err
	}
	if err := c.stop(ctx); err != nil {
		return 0, err
	}
	if c.profile != "" {
		go func() { c.failed.Add(c.writeProfile(ctx)) }()
	}
	whole, _, err := c.measure(ctx, "with an order in force, and a receipt each second", c.receipt)
	if err != nil {
		return 0, err
	}
	c.checks.Store(true)
	checks, asked, err := c.measure(ctx, "with a check in the place of each heartbeat", nil)
	if err != nil {
		return 0, err
	}
	if n := c.failed.Load(); n > 0 {
		return 0, fmt.Errorf("%d requests failed", n)
	}
	price = (whole - alone) / ((checks - alone) / asked)
	fmt.Fprintf(c.out, "heartbeats and receipts: %.4f of a core, as much as %.0f checks a second\n", whole-alone, price)
	return price, nil
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
	port, err := weirtest.Ports(1)
	if err != nil {
		return err
	}
	c.metrics = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if c.weir, err = newMember(binary, dir, "followed", "", "", "--admin-token-file", file, "--self-test", "0", "--metrics", c.metrics); err != nil {
		return err
	}
	if c.secure {
		flags, known, err := secured(dir)
		if err != nil {
			return err
		}
		c.weir.flags, c.weir.tls = append(c.weir.flags, flags...), known
	}
	c.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: c.guards, IdleConnTimeout: time.Minute, TLSClientConfig: c.weir.tls}}
	return c.weir.start()
}

// guard sends heartbeats on a connection of its own.
func (c *crowd) guard(ctx context.Context, n int) {
	own := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: c.weir.tls}}
	defer own.CloseIdleConnections()
	// Guards start at different moments.
	next := time.NewTimer(orders.BeatIdle * time.Duration(n) / time.Duration(c.guards))
	stopped := c.stopped
	for {
		select {
		case <-stopped: // a heartbeat at once
			stopped = nil
		case <-next.C:
		case <-ctx.Done():
			return
		}
		send := c.beat
		if c.checks.Load() {
			send = c.check
		}
		wait, err := send(ctx, own, n)
		if err != nil && ctx.Err() == nil {
			c.failed.Add(1)
		}
		next.Reset(wait)
	}
}

// beat sends a heartbeat, and returns when weir expects the next one.
func (c *crowd) beat(ctx context.Context, own *http.Client, n int) (time.Duration, error) {
	b := orders.Beat{Guard: fmt.Sprint("guard-", n), Instance: fmt.Sprint(n), Language: "go", Held: []string{}}
	if held := c.held.Load().(string); held != "" {
		b.Held = []string{held}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return orders.BeatEvery, err
	}
	var a orders.Answer
	text, err = c.post(ctx, own, "/v1/guards", text)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return orders.BeatEvery, err
	}
	c.beats.Add(1)
	return time.Duration(a.NextMS) * time.Millisecond, nil
}

// post sends a request of a guard on its own connection.
func (c *crowd) post(ctx context.Context, own *http.Client, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.weir.url()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	status, text, err := answerTo(own, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("POST %s: status %d: %.300s", path, status, text)
	}
	return text, err
}

// writeProfile writes what weir computes meanwhile, and returns 1 if that failed.
func (c *crowd) writeProfile(ctx context.Context) int64 {
	scheme, _, _ := strings.Cut(c.weir.url(), ":")
	text, err := askProfile(ctx, c.client, scheme+"://"+c.metrics, max(1, int(c.lasts.Seconds())-1))
	if err != nil || os.WriteFile(c.profile, text, 0o600) != nil {
		return 1
	}
	return 0
}

// check sends a check on the connection of a guard, and returns when to send the next one.
func (c *crowd) check(ctx context.Context, own *http.Client, n int) (time.Duration, error) {
	sent := c.beats.Add(1)
	ev := checkOf(fmt.Sprint("check-", sent), fmt.Sprintf("flow-%d-%d", n, sent), fmt.Sprint("a-", n), fmt.Sprint("b-", n), false)
	ev.Tell = false
	_, err := c.post(ctx, own, "/v1/check", ev.AppendJSON(nil))
	return orders.BeatEvery/2 + rand.N(orders.BeatEvery), err // checks do not come together
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
	close(c.stopped)
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
	req, err := http.NewRequestWithContext(ctx, method, c.weir.url()+path, strings.NewReader(body))
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

// measure returns what weir takes of a core in a part of the trial, and the requests a second. Each second it
// calls fn, if there is one.
func (c *crowd) measure(ctx context.Context, what string, fn func(context.Context) error) (cores, rate float64, err error) {
	pid := c.weir.current().cmd.Process.Pid
	began, before, beats := time.Now(), cpuOf(pid), c.beats.Load()
	next := time.NewTicker(time.Second)
	defer next.Stop()
	for time.Since(began) < c.lasts {
		select {
		case <-next.C:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
		if fn == nil {
			continue
		}
		if err := fn(ctx); err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(began)
	cores = (cpuOf(pid) - before).Seconds() / took.Seconds()
	rate = float64(c.beats.Load()-beats) / took.Seconds()
	fmt.Fprintf(c.out, "%s: %.4f of a core, %.0f requests a second\n", what, cores, rate)
	return cores, rate, nil
}
