package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/spf13/pflag"

	"weir/cmd/internal/operate"
	"weir/events/kafka"
)

// TestAwait waits for brokers in a time that is not real.
func TestAwait(t *testing.T) {
	away := fmt.Errorf("%w: broker kafka:9092", kafka.ErrUnreachable)
	f := func(answers []error, want error, took time.Duration, lines int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			begin, asked := time.Now(), 0
			err := operate.Await(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
				asked++
				return answers[min(asked, len(answers))-1]
			})
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%v, want %v", err, want)
			}
			if got := time.Since(begin); got != took || strings.Count(log.String(), "waits for the brokers") != lines {
				t.Errorf("after %s, want %s, with %d lines\n%s", got, took, lines, log.String())
			}
		})
	}
	f([]error{nil}, nil, 0, 0)
	f([]error{away, away, nil}, nil, 2*time.Second, 1)
	f([]error{away}, kafka.ErrUnreachable, time.Minute, 6)
	f([]error{fmt.Errorf("%w: wrong user or password", kafka.ErrLogin)}, kafka.ErrLogin, 0, 0)
	f([]error{away, fmt.Errorf("%w: it is none", kafka.ErrTLS)}, kafka.ErrTLS, time.Second, 1)
}

// TestAwaitEndsWithItsContext holds that a signal need not wait for a minute.
func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signal := errors.New("ended by a signal")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-time.After(3500 * time.Millisecond)
			cancel(signal)
		}()
		begin := time.Now()
		err := operate.Await(ctx, slog.New(slog.DiscardHandler), func(ctx context.Context) error { return kafka.ErrUnreachable })
		if !errors.Is(err, signal) || time.Since(begin) != 3500*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestHosts(t *testing.T) {
	f := func(want string, addresses ...string) {
		t.Helper()
		b := operate.NewBrokerFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		for _, a := range addresses {
			if err := b.Addresses.Set(a); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.Hosts()
		if want == "" && err == nil || want != "" && (err != nil || !slices.Equal(got, strings.Fields(want))) {
			t.Errorf("%q: %v, %v", addresses, got, err)
		}
	}
	f("a:9092", "a")
	f("a:1 b:2 c:9092", "a:1, b:2", "c")
	f("[::1]:9092", "[::1]:9092")
	f("127.0.0.1:9092", "127.0.0.1")
	f("", "a:1:2")
	f("", "::1")
	f("", "a,,b")
	f("", ":9092")
	f("", "a:")
}

func TestSettled(t *testing.T) {
	f := func(answers []error, want error, took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			begin, asked := time.Now(), 0
			err := operate.Settled(t.Context(), func(context.Context) error {
				asked++
				return answers[min(asked, len(answers))-1]
			})
			if got := time.Since(begin); !errors.Is(err, want) || want == nil && err != nil || got != took {
				t.Errorf("%v after %s, want %v after %s", err, got, want, took)
			}
		})
	}
	moved := fmt.Errorf("topic x: %w", kafkago.NotLeaderForPartition)
	f([]error{nil}, nil, 0)
	f([]error{moved, moved, nil}, nil, 200*time.Millisecond)
	f([]error{moved}, kafkago.NotLeaderForPartition, 10*time.Second)
	f([]error{fmt.Errorf("%w: %w", kafka.ErrNoTopic, kafkago.UnknownTopicOrPartition)}, kafka.ErrNoTopic, 0)
	f([]error{kafkago.TopicAuthorizationFailed}, kafkago.TopicAuthorizationFailed, 0)
	f([]error{kafka.ErrLogin}, kafka.ErrLogin, 0)
}
