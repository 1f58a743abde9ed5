package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"weir/cmd/weirtest"
)

// profiledFor is how many seconds of each fold are profiled. A fold takes longer by itself.
const profiledFor = 3

// profileOf folds honest flows and writes where weir's processor time goes to a file, for go build -pgo.
func (b *bench) profileOf(ctx context.Context, file string, seed uint64) (err error) {
	b.real = true
	// A measured program that was compiled by a profile would strengthen what that one had.
	down, err := b.up(ctx, build)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return err
	}
	// Honest flows alone are what weir sees nearly always. With the other mixes the compiler takes more
	// calls for frequent ones, and the gain is lost.
	if _, err := b.produce(ctx, "profiled", peerMix{"honest flows", b.events, b.events / 20, honestOnly, seed}); err != nil {
		return err
	}
	var all []*profile.Profile
	for range b.rounds {
		p, err := b.profiledFold(ctx, "profiled")
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return err
	}
	// The compiler reads names of functions and lines. Paths would differ from machine to machine.
	for _, m := range merged.Mapping {
		m.File, m.BuildID = "weir", ""
	}
	for _, f := range merged.Function {
		f.Filename = ""
	}
	merged.Comments, merged.TimeNanos = nil, 0
	var out bytes.Buffer
	if err := merged.Write(&out); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d profiles of %d s, %d samples, %d bytes\n", len(all), profiledFor, len(merged.Sample), out.Len())
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// profiledFold is fold with a profile of a part of it.
func (b *bench) profiledFold(ctx context.Context, name string) (*profile.Profile, error) {
	port, err := weirtest.Ports(1)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		p   *profile.Profile
		err error
	}
	took := make(chan result, 1)
	go func() {
		p, err := takeProfile(ctx, address)
		took <- result{p, err}
	}()
	if _, _, err := b.fold(ctx, name, "--metrics", address); err != nil {
		return nil, err
	}
	cancel() // it has come by now, or never will
	r := <-took
	if r.err != nil {
		return nil, fmt.Errorf("the profile was not taken before weir had caught up; give more -events: %w", r.err)
	}
	return r.p, nil
}

// takeProfile asks until weir answers.
func takeProfile(ctx context.Context, address string) (*profile.Profile, error) {
	for {
		if text, err := askProfile(ctx, http.DefaultClient, "http://"+address, profiledFor); err == nil {
			return profile.Parse(bytes.NewReader(text))
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// askProfile returns a CPU profile of a weir whose metrics are at base.
func askProfile(ctx context.Context, client *http.Client, base string, seconds int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", base, seconds), http.NoBody)
	if err != nil {
		return nil, err
	}
	status, text, err := answerTo(client, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, text)
	}
	return text, err
}
