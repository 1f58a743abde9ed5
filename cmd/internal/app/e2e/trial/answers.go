package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// answers checks calls by every guard and by every way, with hundreds in flight, beside flows that
// an operator has stopped, loops that weir stops, and kills of weir. Each check has to get one
// answer, its own. What the log then holds is compared with what was answered.
type answers struct {
	weirs  *weirs
	lasts  time.Duration
	rate   int // answers a second, by all drivers together
	kills  int
	seed   uint64
	guards bool // those of Python and TypeScript, too
	keep   bool
	out    io.Writer

	dir     string
	until   time.Time
	looping int // calls of a loop until weir stops it
	drivers []*driver
}

// answersCommand reads the flags.
func answersCommand(ctx context.Context, args []string) error {
	a := &answers{weirs: new(weirs), out: os.Stdout}
	fs := flag.NewFlagSet("trial answers", flag.ExitOnError)
	fs.DurationVar(&a.lasts, "for", time.Minute, "how long calls are checked")
	fs.IntVar(&a.rate, "rate", 2000, "answers a second")
	fs.IntVar(&a.kills, "kills", -1, "hard exits of weir; -1 is two a minute")
	fs.BoolVar(&a.weirs.group, "group", false, "three members of a group instead of one weir")
	fs.BoolVar(&a.weirs.real, "real", false, "a group on Apache Kafka by kafka.sh instead of kfake")
	fs.BoolVar(&a.guards, "guards", true, "check by the guards of Python and TypeScript, too")
	fs.Uint64Var(&a.seed, "seed", 1, "of the calls")
	fs.BoolVar(&a.keep, "keep", false, "leave logs and data, also when all is well")
	if err := fs.Parse(args); err != nil {
		return err
	}
	well, err := a.run(ctx)
	if err == nil && !well {
		err = errors.New("answers are wrong, lost or doubled: see above")
	}
	return err
}

// run reports whether all was well. An error is that the trial could not go on.
func (a *answers) run(ctx context.Context) (ok bool, err error) {
	if a.kills < 0 {
		a.kills = int(a.lasts / (30 * time.Second))
	}
	a.weirs.group = a.weirs.group || a.weirs.real
	if a.dir, err = os.MkdirTemp("", "weir-answers-"); err != nil {
		return false, err
	}
	defer func() {
		if ok && !a.keep {
			err = errors.Join(err, os.RemoveAll(a.dir))
		} else {
			fmt.Fprintf(a.out, "logs and data are in %s\n", a.dir)
		}
	}()
	defer func() { err = errors.Join(err, a.weirs.abandon()) }()
	if err := a.weirs.begin(ctx, a.dir); err != nil {
		return false, err
	}
	if err := a.prepare(ctx); err != nil {
		return false, err
	}
	began, before := time.Now(), a.weirs.cpu()
	a.until = began.Add(a.lasts)
	if err := a.drive(ctx); err != nil {
		return false, err
	}
	took, used := time.Since(began), a.weirs.cpu()-before
	log, err := a.weirs.end(ctx, a.dir)
	if err != nil {
		return false, err
	}
	r := &answersReport{answers: a, log: log, took: took, used: used}
	if err := r.judge(); err != nil {
		return false, err
	}
	r.print(a.out)
	return r.ok(), nil
}

// stoppedFlows is how many flows an operator has stopped.
const stoppedFlows = 20

// prepare stops flows by hand, and counts how many calls of a loop weir lets pass.
func (a *answers) prepare(ctx context.Context) error {
	for n := range stoppedFlows {
		if err := a.weirs.stopFlow(ctx, stoppedFlow(n)); err != nil {
			return err
		}
	}
	var err error
	if a.looping, err = a.weirs.countLoop(ctx); err != nil {
		return err
	}
	share := 0.0
	for _, d := range answerDrivers {
		if d.program == nil || a.guards {
			share += d.share
		}
	}
	for _, d := range answerDrivers {
		if d.program != nil && !a.guards {
			continue
		}
		one := d
		one.share /= share
		if d.program != nil {
			if one.command, err = d.program(a); err != nil {
				return err
			}
		}
		one.answers, one.seen = a, newSeen()
		one.every = time.Duration(float64(one.lanes) / (float64(a.rate) * one.share) * float64(time.Second))
		if one.flows, err = os.Create(filepath.Join(a.dir, fmt.Sprintf("flows-%d", len(a.drivers)))); err != nil {
			return err
		}
		a.drivers = append(a.drivers, &one)
	}
	return nil
}

// drive runs all drivers while weirs are killed.
func (a *answers) drive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	failed := make([]error, len(a.drivers)+1)
	for i, d := range a.drivers {
		all.Go(func() {
			if err := d.run(ctx, d); err != nil {
				failed[i] = fmt.Errorf("%s, %s: %w", d.name, d.way, err)
				cancel()
			}
		})
	}
	all.Go(func() { a.loops(ctx) })
	failed[len(a.drivers)] = a.killing(ctx)
	all.Wait()
	for _, d := range a.drivers {
		failed = append(failed, d.flows.Close())
	}
	return errors.Join(failed...)
}

// killing ends members by SIGKILL, one after the other, in equal parts of the time. The last is back
// before the checks end.
func (a *answers) killing(ctx context.Context) error {
	for n := range a.kills {
		at := a.until.Add(-a.lasts + a.lasts*time.Duration(n+1)/time.Duration(a.kills+1))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return nil
		}
		if err := a.weirs.kill(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
