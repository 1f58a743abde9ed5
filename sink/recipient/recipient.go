// Package recipient describes an HTTP endpoint that receives verdicts.
package recipient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Parse reads the URL of an endpoint, which has a host and the scheme http or https. No error
// contains the URL: its path and query often are the secret by which the endpoint knows its sender.
// It is the one place that reads such URLs.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read: %w", WithoutURL(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the URL is no endpoint; want http:// or https:// and a host")
	}
	return u, nil
}

// Client returns a client that waits for 10 s at most and follows no redirects, since verdicts
// go only to the configured recipient.
// The timeout includes the body. A redirect is then an answer with its status, which is a
// refusal or passes like any other.
func Client() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// WithoutURL takes the URL out of an error, see Parse.
func WithoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Outcome returns what a status means: nil for 2xx, a *Refusal for what is no use to send again, and
// another error for what may pass later.
func Outcome(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests:
		return &Refusal{Status: resp.Status}
	}
	return fmt.Errorf("status %s", resp.Status)
}

// Counts is what was done with verdicts. Any goroutine may read it.
// It is zero at the start of the program.
type Counts struct {
	Delivered atomic.Int64
	Failures  atomic.Int64 // requests that failed
	Dropped   atomic.Int64 // verdicts that were given up, or that the endpoint did not keep
}

// Refusal is the error of an answer that trying again will hardly change.
// It is matched by type; who posts decides how many of them are enough.
type Refusal struct{ Status string }

// Error says with which status.
func (r *Refusal) Error() string { return "refused with status " + r.Status }
