package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

func TestExplain(t *testing.T) {
	f := func(err, want error, final bool, texts ...string) {
		t.Helper()
		got := explain("host:1", fmt.Errorf("while trying: %w", err))
		if want != nil && !errors.Is(got, want) || Final(got) != final {
			t.Errorf("%v became %v, want %v, final %v", err, got, want, final)
		}
		for _, text := range append(texts, "host:1") {
			if !strings.Contains(got.Error(), text) {
				t.Errorf("%v became %v, which does not say %q", err, got, text)
			}
		}
		said := final || errors.Is(got, ErrUnreachable) || errors.Is(got, ErrNoTopic)
		if again := explain("other:2", got); said && again.Error() != got.Error() {
			t.Errorf("%v explained again is %v", got, again)
		}
	}
	f(context.Canceled, context.Canceled, false)
	f(context.DeadlineExceeded, ErrUnreachable, false, "in time")
	f(os.ErrDeadlineExceeded, ErrUnreachable, false, "in time")
	f(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, ErrUnreachable, false, "refused", "running")
	f(&net.DNSError{Err: "no such host", Name: "host"}, ErrUnreachable, false, "resolved")
	f(kafkago.SASLAuthenticationFailed, ErrLogin, true, "password")
	f(kafkago.UnsupportedSASLMechanism, ErrLogin, true, "scram-sha-512")
	f(kafkago.IllegalSASLState, ErrLogin, true, "no login")
	f(kafkago.TopicAuthorizationFailed, ErrDenied, true, "ACL")
	f(kafkago.GroupAuthorizationFailed, ErrDenied, true, "ACL")
	f(kafkago.UnknownTopicOrPartition, ErrNoTopic, false)
	f(kafkago.InconsistentGroupProtocol, kafkago.InconsistentGroupProtocol, false, "another name")
	f(kafkago.InvalidSessionTimeout, kafkago.InvalidSessionTimeout, false, "group.max.session.timeout.ms")
	f(kafkago.RequestTimedOut, kafkago.RequestTimedOut, false, "[7]")
	f(kafkago.NotLeaderForPartition, kafkago.NotLeaderForPartition, false)
	if explain("host:1", nil) != nil {
		t.Error("nothing is explained")
	}

	g := func(err, want error, texts ...string) {
		t.Helper()
		got := explainTLS("host:1", err)
		if !errors.Is(got, want) || Final(got) != (want == ErrTLS) {
			t.Errorf("%v became %v, want %v", err, got, want)
		}
		for _, text := range append(texts, "host:1") {
			if !strings.Contains(got.Error(), text) {
				t.Errorf("%v became %v, which does not say %q", err, got, text)
			}
		}
	}
	g(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, ErrTLS, "does not talk TLS")
	g(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ErrTLS, "authority")
	g(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "host"}}, ErrTLS, "another name")
	g(&tls.CertificateVerificationError{Err: errors.New("expired")}, ErrTLS, "expired")
	g(tls.AlertError(42), ErrTLS, "certificate")
	g(context.DeadlineExceeded, ErrUnreachable, "in time")
	g(syscall.ECONNRESET, ErrUnreachable, "hung up")
	g(context.Canceled, context.Canceled)
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	f := func(err error, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not say %q", err, text)
			}
		}
	}
	f(&GapError{"events", 3, 10, 40}, "events", "partition 3", "30 records", "retention.ms")
	f(&BeyondEndError{"events", 3, 10, 4}, "events", "partition 3", "10", "ends at 4")
	f(&BatchError{"events", 3, 10, 12, ErrTooLarge}, "events", "partition 3", "from offset 10 to before 12", "limit")
	f(&PartitionsChangedError{"events", 3, 4}, "events", "4 partitions", "not 3")
}
