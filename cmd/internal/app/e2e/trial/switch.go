package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/cmd/weirtest"
	"weir/events"
	"weir/events/kafka"
	"weir/sink/guard"
	"weir/sink/guard/kafkaguard"
)

// switches is a trial of orders by hand of scope all in a group of three: guards of three languages and
// gateways check calls while members are killed, hand partitions over and do not reach each other. After a
// receipt says that an order is complete, no call may be admitted.
type switches struct {
	*trio
	rounds   int
	tries    int           // in each stop, by all dispatchers together
	guards   int           // of each language
	foreign  bool          // guards of Python and TypeScript, too
	gateways string        // folder that sink/check/gateways/install.sh has filled; "": clients of forward auth
	within   time.Duration // in which an order has to be in force everywhere

	token   string
	grpc    []string // ports at which members answer Envoy
	proxies []*proxy // at which members reach each other
	lost    []*proxy // by which one guard reaches the members
	alone   bool     // each guard knows one member
	stop    chan struct{}
	work    sync.WaitGroup
	all     []*dispatcher
	spans   []stopTime
}

// dispatcher is a guard or a gateway that checks calls.
type dispatcher struct {
	name string
	file string // what a guard of another language has written

	mu     sync.Mutex
	tries  []try
	offset int64 // in the file, up to which it was read
}

// try is one check. It is of a time if it has begun and was answered within: a check that is under way when
// the stop is lifted may be allowed.
type try struct {
	begun, done time.Time
	admitted    bool
}

func (t *try) within(from, to time.Time) bool { return t.begun.After(from) && t.done.Before(to) }

// stopTime is the time in which a stop was in force, as weir acknowledged it.
type stopTime struct {
	what                string
	given, since, ended time.Time
	acknowledged        time.Time // the trial has read the receipt
}

func switchCommand(ctx context.Context, args []string) error {
	s, w := &storm{out: os.Stdout}, &switches{foreign: true}
	fs := flag.NewFlagSet("trial switch", flag.ExitOnError)
	fs.BoolVar(&s.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.IntVar(&s.flows, "flows", 1000, "in which calls are checked")
	fs.IntVar(&s.partitions, "partitions", 64, "of the topics")
	fs.IntVar(&w.rounds, "rounds", 8, "stops, of which each has another fault than the one before")
	fs.IntVar(&w.tries, "tries", 12_500, "checks during each stop")
	fs.StringVar(&w.gateways, "gateways", "", "the FOLDER that sink/check/gateways/install.sh has filled, for real gateways")
	fs.BoolVar(&w.alone, "alone", false, "each guard knows one member, as before guards took several addresses")
	fs.DurationVar(&w.within, "within", time.Second, "from the order to the last guard, p99")
	fs.IntVar(&w.guards, "guards", 5, "of each language, and one more that follows Kafka")
	fs.BoolVar(&s.keep, "keep", false, "leave logs and data, also when all is well")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ok, err := w.run(ctx, s)
	if err == nil && !ok {
		err = errors.New("the switch does not hold: see above")
	}
	return err
}

// run reports whether no call was admitted after an acknowledged stop.
func (w *switches) run(ctx context.Context, s *storm) (ok bool, err error) {
	w.stop, w.token = make(chan struct{}), strings.Repeat("0123456789", 4)
	w.trio, err = newTrio(ctx, s, "weir-switch-", func(dir string) ([]string, error) {
		file, limits := filepath.Join(dir, "token"), filepath.Join(dir, "limits.yaml")
		err := errors.Join(os.WriteFile(file, []byte(w.token), 0o600), os.WriteFile(limits, []byte("profile: none\n"), 0o600))
		return []string{"--authz", "--admin-token-file", file, "--limits", limits}, err
	}, w.each)
	defer func() { err = errors.Join(err, w.end(ok && err == nil)) }()
	defer w.over()
	if err != nil {
		return false, err
	}
	if err := w.begin(ctx); err != nil {
		return false, err
	}
	faults := w.faults()
	for i := range w.rounds {
		f := faults[i%len(faults)]
		if err := w.round(ctx, f); err != nil {
			return false, fmt.Errorf("%s: %w", f.what, err)
		}
	}
	named, err := w.cutOff(ctx)
	if err != nil {
		return false, err
	}
	w.over()
	return w.judge(named)
}

// each returns the flags of one member: the proxy at which the others reach it, and the port for Envoy.
func (w *switches) each(m *member) ([]string, error) {
	p, err := newProxy(m.listen)
	if err != nil {
		return nil, err
	}
	w.proxies = append(w.proxies, p)
	port, err := weirtest.Ports(1)
	if err != nil {
		return nil, err
	}
	w.grpc = append(w.grpc, strconv.Itoa(port))
	return []string{"--advertise", p.url(), "--authz-grpc", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, nil
}

// over ends all dispatchers.
func (w *switches) over() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
		if w.dir != "" {
			_ = os.WriteFile(filepath.Join(w.dir, "end"), nil, 0o600)
		}
	}
	w.work.Wait()
	for _, p := range slices.Concat(w.proxies, w.lost) {
		_ = p.Close()
	}
}

// begin starts the dispatchers and waits until each was allowed a call.
func (w *switches) begin(ctx context.Context) error {
	for _, m := range w.members {
		p, err := newProxy(m.listen)
		if err != nil {
			return err
		}
		w.lost = append(w.lost, p)
	}
	for n := range w.guards {
		url := w.addresses(n, func(m int) string { return "http://" + w.members[m].listen })
		if n == 0 {
			url = w.addresses(n, func(m int) string { return w.lost[m].url() })
		}
		if err := w.goGuard(ctx, fmt.Sprint("go-", n), func(o guard.Options) (*guard.Guard, error) { o.URL = url; return guard.New(o) }); err != nil {
			return err
		}
	}
	err := w.goGuard(ctx, "kafka-0", func(o guard.Options) (*guard.Guard, error) {
		o.URL = w.addresses(1, func(m int) string { return "http://" + w.members[m].listen })
		return kafkaguard.New(kafkaguard.Options{Options: o, Cluster: &kafka.Cluster{Brokers: []string{w.server.addr}}})
	})
	if err != nil {
		return err
	}
	if w.foreign {
		if err := w.foreignGuards(ctx); err != nil {
			return err
		}
	}
	if w.gateways == "" {
		for n := range gateways {
			w.forwardAuth(ctx, n)
		}
	} else if err := w.realGateways(ctx); err != nil {
		return err
	}
	return eventually(ctx, 2*time.Minute, "all dispatchers to admit a call", func() (bool, error) {
		w.mu.Lock()
		failed := slices.Clone(w.problems)
		w.mu.Unlock()
		if len(failed) > 0 {
			return false, errors.New(failed[0])
		}
		for _, d := range w.all {
			if !slices.ContainsFunc(d.read(), func(t try) bool { return t.admitted }) {
				return false, nil
			}
		}
		return true, nil
	})
}

// addresses are those of the members for the n-th guard, from another one on for each.
func (w *switches) addresses(n int, of func(member int) string) string {
	list := []string{of(n % 3), of((n + 1) % 3), of((n + 2) % 3)}
	if w.alone {
		list = list[:1]
	}
	return strings.Join(list, ",")
}

// goGuard checks calls by a guard until the trial is over.
func (w *switches) goGuard(ctx context.Context, name string, begin func(guard.Options) (*guard.Guard, error)) error {
	g, err := begin(guard.Options{Source: name, Quiet: true})
	if err != nil {
		return err
	}
	if err := g.Wait(ctx); err != nil {
		return err
	}
	w.dispatch(name, func(n int) bool {
		d := g.Ask(ctx, guard.Call{Flow: fmt.Sprintf("%s-%d", name, n%w.flows), From: name, To: "b", HadWork: events.Yes})
		return !d.Stopped()
	}, g.Close)
	return nil
}

// forwardAuth checks calls as nginx does, at one member after the other. A call without an answer is not
// forwarded.
func (w *switches) forwardAuth(ctx context.Context, n int) {
	name := fmt.Sprint("gateway-", n)
	client := &http.Client{Timeout: 5 * time.Second}
	w.dispatch(name, func(i int) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.members[(n+i)%3].listen+"/authz/nginx", http.NoBody)
		if err != nil {
			return false
		}
		req.Header.Set("X-Agent-Id", name)
		req.Header.Set("X-Correlation-Id", fmt.Sprintf("%s-%d", name, i%w.flows))
		req.Header.Set("X-Original-Uri", "/x")
		req.Header.Set("X-Forwarded-Host", "tool.example")
		req.Header.Set("X-Original-Method", "GET")
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode < 300
	}, client.CloseIdleConnections)
}

// dispatch tries calls until the trial is over.
func (w *switches) dispatch(name string, admitted func(n int) bool, end func()) {
	d := &dispatcher{name: name}
	w.all = append(w.all, d)
	w.work.Go(func() {
		defer end()
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond): // a real dispatcher does something between two calls
			}
			t := try{begun: time.Now()}
			t.admitted = admitted(n)
			t.done = time.Now()
			d.mu.Lock()
			d.tries = append(d.tries, t)
			d.mu.Unlock()
		}
	})
}

// foreignGuards starts the guards of Python and TypeScript.
func (w *switches) foreignGuards(ctx context.Context) error {
	root, err := module("weir")
	if err != nil {
		return err
	}
	at := filepath.Join(root, "cmd/internal/app/e2e/trial/testdata")
	ts, err := typescriptGuard(&answers{dir: w.dir})
	if err != nil {
		return err
	}
	for language, command := range map[string][]string{"py": {"python3", filepath.Join(at, "switch.py"), filepath.Join(root, "sink/guard/python")}, "ts": {ts[0], filepath.Join(at, "switch.mjs"), ts[2]}} {
		for n := range w.guards {
			d := &dispatcher{name: fmt.Sprintf("%s-%d", language, n)}
			d.file = filepath.Join(w.dir, d.name)
			given, err := json.Marshal(map[string]any{"url": w.addresses(n, func(m int) string { return "http://" + w.members[m].listen }), "name": d.name, "flows": w.flows, "file": d.file, "end": filepath.Join(w.dir, "end")})
			if err != nil {
				return err
			}
			run := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:]), string(given))...)
			log, err := os.Create(d.file + ".log")
			if err != nil {
				return err
			}
			run.Stdout, run.Stderr = log, log
			if err := run.Start(); err != nil {
				return err
			}
			w.all = append(w.all, d)
			w.work.Go(func() {
				if err := run.Wait(); err != nil {
					w.problem("%s: %v", d.name, err)
				}
				_ = log.Close()
			})
		}
	}
	return nil
}

// read returns the tries so far, which must not be changed.
func (d *dispatcher) read() []try {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == "" {
		return d.tries[:len(d.tries):len(d.tries)]
	}
	f, err := os.Open(d.file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(d.offset, io.SeekStart); err != nil {
		return nil
	}
	text, _ := io.ReadAll(f)
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	d.offset += int64(len(whole))
	for line := range bytes.Lines(whole) {
		var begun, done float64
		var admitted int
		if n, _ := fmt.Sscan(string(line), &begun, &done, &admitted); n == 3 {
			d.tries = append(d.tries, try{time.UnixMicro(int64(begun * 1e6)), time.UnixMicro(int64(done * 1e6)), admitted == 1})
		}
	}
	return d.tries[:len(d.tries):len(d.tries)]
}

// enough waits until a number of checks were made after a time.
func (w *switches) enough(ctx context.Context, tries int, since time.Time) error {
	next := time.Now()
	return eventually(ctx, 10*time.Minute, "enough checks during the stop", func() (bool, error) {
		if time.Now().Before(next) {
			return false, nil
		}
		next = time.Now().Add(time.Second)
		n, _ := w.made(since, next)
		return n >= tries, nil
	})
}

// made is how many checks were made in a time, and how many of them were admitted.
func (w *switches) made(from, to time.Time) (tries, admitted int) {
	for _, d := range w.all {
		for _, t := range d.read() {
			if t.within(from, to) {
				if tries++; t.admitted {
					admitted++
				}
			}
		}
	}
	return tries, admitted
}
