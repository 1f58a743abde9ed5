package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/events"
)

// lines does on purpose what users do by mistake, and prints the lines that they see.
// Nothing is judged: a person reads whether each line says what is wrong, where, and how to
// go on. What must never happen, that a command hangs, is said in capitals.
type lines struct {
	real bool
	away time.Duration // the broker
	out  io.Writer

	// dir is replaced by DIR in what is printed, so that two runs can be compared.
	dir, binary string
}

// run makes the mistakes one after the other, those first that need no topics.
func (l *lines) run(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("", "weir-lines-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.binary, err = build(l.dir); err != nil {
		return err
	}
	s, err := newServer(l.real, filepath.Join(l.dir, "broker"))
	if err != nil {
		return err
	}
	// Listeners that want a login are what a wrong password needs.
	s.auth = true
	if err := s.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	l.title("a topic that is missing")
	// It has to end at once: time does not make a topic (see decision 31).
	l.weir(ctx, "run", "--brokers", s.addr, "--state", filepath.Join(l.dir, "none"), "--listen", "127.0.0.1:0", "--metrics", "")
	l.weir(ctx, "topics", "plan", "--brokers", s.addr)

	l.title("a wrong password")
	password := filepath.Join(l.dir, "password")
	if err := os.WriteFile(password, []byte("not-the-password\n"), 0o600); err != nil {
		return err
	}
	for _, mechanism := range []string{"plain", "scram-sha-256"} {
		l.weir(ctx, "run", "--brokers", s.loginAddr(), "--kafka-sasl", mechanism, "--kafka-user", "weir", "--kafka-password-file", password,
			"--state", filepath.Join(l.dir, "none"), "--listen", "127.0.0.1:0", "--metrics", "")
	}
	// Doctor names the flags that may be wrong.
	l.weir(ctx, "doctor", "--brokers", s.loginAddr(), "--kafka-sasl", "scram-sha-512", "--kafka-user", "weir", "--kafka-password-file", password)
	l.title("no password at all, and no TLS where it is wanted")
	// Here no login is sent at all.
	l.weir(ctx, "topics", "plan", "--brokers", s.loginAddr())
	// The kfake of a trial has no listener for TLS.
	if l.real {
		l.weir(ctx, "topics", "plan", "--brokers", s.tlsAddr())
	}
	l.title("nobody at the address")
	// Nothing listens on that port of any usual machine.
	l.weir(ctx, "topics", "plan", "--brokers", "127.0.0.1:1")

	l.title("a producer that uses another partitioner")
	// As many as misplace counts on.
	l.weir(ctx, "topics", "create", "--brokers", s.addr, "--partitions", "4", "--replication", "1")
	if err := l.misplace(ctx, s); err != nil {
		return err
	}
	// It has to find out which partitioner that was, by the records alone.
	l.weir(ctx, "doctor", "--brokers", s.addr)

	l.title(fmt.Sprintf("a broker that goes away for %s", l.away))
	return l.outage(ctx, s)
}

// title begins the output of one mistake.
func (l *lines) title(what string) { fmt.Fprintf(l.out, "\n=== %s\n", what) }

// weir runs the program and prints what it says; it must end by itself.
// 90 seconds are more than the minute for which weir waits for brokers at its start (see
// decision 31).
func (l *lines) weir(ctx context.Context, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	// Both outputs together, as a terminal shows them.
	var said strings.Builder
	cmd := exec.CommandContext(ctx, l.binary, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	err := cmd.Run()
	// What the process said to the end of the context is "signal: killed", which says
	// nothing.
	if ctx.Err() != nil {
		err = fmt.Errorf("IT HANGS: killed after %s", time.Since(began).Round(time.Second))
	}
	// A mistake that ends with 0 would be seen by no script.
	status := "exit status 0"
	if err != nil {
		status = err.Error()
	}
	fmt.Fprintf(l.out, "$ weir %s\n%s[%s after %s]\n", strings.ReplaceAll(strings.Join(args, " "), l.dir, "DIR"),
		strings.ReplaceAll(said.String(), l.dir, "DIR"), status, time.Since(began).Round(10*time.Millisecond))
}

// misplace produces events by the right keys to the partitions that an FNV hash names.
// Events of one flow then stand in one partition all the same, and not in the one in which
// other producers and asks put them: nothing fails, and budgets count too little.
func (l *lines) misplace(ctx context.Context, s *server) error {
	c, err := s.client(kgo.DefaultProduceTopic(defaultTopics().events), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer c.Close()
	now := events.StampOf(time.Now())
	// They are of the last minute, so that nothing about them is wrong but their place.
	tr := &traffic{seed: 1, name: "elsewhere", events: 2000, flows: 200, from: now - 60_000, to: now}
	err = tr.each(func(r *record) error {
		h := fnv.New32a()
		h.Write(r.key)
		c.Produce(ctx, &kgo.Record{Key: r.key, Value: r.value, Partition: int32(h.Sum32() % 4)}, nil)
		return nil
	})
	return errors.Join(err, c.Flush(ctx))
}

// outage kills the broker under a member and shows what its log and /readyz say.
// The ready times are those of a second watch, which begins when the broker serves again.
func (l *lines) outage(ctx context.Context, s *server) error {
	m, err := newMember(l.binary, l.dir, "member", s.addr, groupName)
	if err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	// It has mostly ended by then.
	defer func() { _ = m.kill() }()
	// The response that a person sees: the status and all of the body.
	ready := func(what string) {
		resp, err := http.Get("http://" + m.listen + "/readyz")
		if err != nil {
			fmt.Fprintf(l.out, "%s: %v\n", what, err)
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		fmt.Fprintf(l.out, "%s: /readyz %d %s\n", what, resp.StatusCode, body)
	}
	// Before that the member has nothing to lose by the outage.
	caughtUp := func() (bool, error) { _, at := m.current().times(); return at > 0, nil }
	if err := eventually(ctx, time.Minute, "the member to catch up", caughtUp); err != nil {
		return err
	}
	ready("before")
	// Only what the log says from here on is shown.
	logged := len(m.lastLines(1 << 20))
	if err := s.kill(); err != nil {
		return err
	}
	<-time.After(l.away / 2)
	// By now it has to say since when nothing can be read.
	ready("in the middle")
	<-time.After(l.away / 2)
	if err := s.start(ctx); err != nil {
		return err
	}
	began := time.Now()
	// No process of its own: it watches the one that runs, as if it had started now.
	r := &run{done: m.current().done, started: began}
	go r.watch(m.url()+"/readyz", m.tls)
	if err := eventually(ctx, time.Minute, "the member to catch up again", func() (bool, error) { _, at := r.times(); return at > 0, nil }); err != nil {
		fmt.Fprintln(l.out, err)
	}
	ready(fmt.Sprintf("%s after the broker served again", time.Since(began).Round(100*time.Millisecond)))
	fmt.Fprintln(l.out, "the log of weir meanwhile:")
	fmt.Fprintln(l.out, m.lastLines(1 << 20)[logged:])
	took, err := m.stop()
	fmt.Fprintf(l.out, "ended by SIGTERM after %s: %v\n", took.Round(time.Millisecond), err)
	return nil
}
