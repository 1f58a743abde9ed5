package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	kafkago "github.com/segmentio/kafka-go"
)

// Obstacles between this program and a topic; errors.Is finds them in the errors of this
// package. The text of an error says where and what to do.
//
// Any other error concerns one request and has the broker's text.
var (
	ErrUnreachable = errors.New("no answer")
	ErrLogin       = errors.New("login refused")
	ErrTLS         = errors.New("no agreement about TLS")
	ErrNoTopic     = errors.New("no such topic")
	ErrDenied      = errors.New("not permitted")
)

// Final reports whether it is of no use to try again before a person changes
// something: the login, TLS, or what the broker permits. That no broker can be reached
// is not final, for one that was killed is back after half a minute. Nor is it final
// that a topic is not there: a broker that comes up does not know it yet.
func Final(err error) bool {
	return errors.Is(err, ErrLogin) || errors.Is(err, ErrTLS) || errors.Is(err, ErrDenied)
}

// explain turns what went wrong with a broker into what a person can act on. What it
// has explained before it leaves alone.
//
// addr is the broker that was asked; the library's errors do not name it.
func explain(addr string, err error) error {
	var code kafkago.Error
	var lookup *net.DNSError
	switch {
	case err == nil:
		return nil
	case Final(err), errors.Is(err, ErrUnreachable), errors.Is(err, ErrNoTopic):
		return err
	// The caller gave up and knows why, so no advice is added.
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("broker %s: %w", addr, err)
	case errors.As(err, &code):
		return explainCode(addr, code, err)
	// Deadlines of this package end in several ways: that of a context, that of a socket, and
	// the library's.
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), timedOut(err):
		return fmt.Errorf("%w: broker %s: nothing came back in time: is the address right, and does a firewall let it through? (%w)", ErrUnreachable, addr, err)
	case errors.As(err, &lookup):
		return fmt.Errorf("%w: broker %s: the name cannot be resolved here (%w)", ErrUnreachable, addr, err)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%w: broker %s: %w: is it running, and is the address right?", ErrUnreachable, addr, op.Err)
	}
	return fmt.Errorf("broker %s: %w", addr, err)
}

// timedOut finds the timeouts that are of none of the two types above.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// explainCode is explain for a broker's error code. It distinguishes those that a person can act
// on.
func explainCode(addr string, code kafkago.Error, err error) error {
	switch code {
	case kafkago.SASLAuthenticationFailed:
		return fmt.Errorf("%w: broker %s: wrong user or password, or a token that is not valid here", ErrLogin, addr)
	case kafkago.UnsupportedSASLMechanism:
		return fmt.Errorf("%w: broker %s does not offer this mechanism: try another of plain, scram-sha-256, scram-sha-512, oauthbearer and aws-msk-iam", ErrLogin, addr)
	case kafkago.IllegalSASLState:
		return fmt.Errorf("%w: broker %s takes no login on this port: use its port for SASL, or no login", ErrLogin, addr)
	case kafkago.TopicAuthorizationFailed, kafkago.GroupAuthorizationFailed, kafkago.ClusterAuthorizationFailed:
		return fmt.Errorf("%w: broker %s: %w: add an ACL for this user", ErrDenied, addr, code)
	case kafkago.InconsistentGroupProtocol:
		return fmt.Errorf("%w: another program is in the group: use another name for the group (broker %s)", code, addr)
	case kafkago.InvalidSessionTimeout:
		return fmt.Errorf("%w: broker %s allows only from group.min.session.timeout.ms to group.max.session.timeout.ms", code, addr)
	case kafkago.UnknownTopicOrPartition:
		return fmt.Errorf("%w (broker %s)", ErrNoTopic, addr)
	}
	return fmt.Errorf("broker %s: %w", addr, err)
}

// explainTLS is explain for the error of a handshake.
//
// Before the handshake nothing is known of the peer, so it names what is likely.
func explainTLS(addr string, err error) error {
	var (
		head      tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		alert     tls.AlertError
		unchecked *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &head):
		return fmt.Errorf("%w: broker %s does not talk TLS on this port: use its port for TLS, or no TLS", ErrTLS, addr)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: the certificate of broker %s is signed by nobody that this machine trusts: name the file of its authority (%w)", ErrTLS, addr, err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: the certificate of broker %s is for another name: use a name that is in it (%w)", ErrTLS, addr, err)
	// A certificate that was refused, by either side, needs a person.
	case errors.As(err, &alert), errors.As(err, &unchecked):
		return fmt.Errorf("%w: broker %s: %w", ErrTLS, addr, err)
	}
	if errors.Is(err, context.Canceled) {
		return explain(addr, err)
	}
	// Most often the broker hung up, or waits: a plain port takes the greeting for a request
	// of 350 MB. But so does a broker that is just going down, hence this is not final.
	what := "hung up"
	if errors.Is(err, context.DeadlineExceeded) || timedOut(err) {
		what = "did not answer in time"
	}
	return fmt.Errorf("%w: broker %s %s while agreeing about TLS: if it does so every time, it does not talk TLS on this port, or wants a certificate (%w)", ErrUnreachable, addr, what, err)
}
