package peer

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/sink/sign"
)

var (
	old   = sign.Key{ID: "k1", Secret: []byte(strings.Repeat("o", sign.LeastSecret))}
	fresh = sign.Key{ID: "k2", Secret: []byte(strings.Repeat("n", sign.LeastSecret))}
)

func member(at events.Stamp, keys ...sign.Key) *Peer {
	return &Peer{Client: http.DefaultClient, Now: func() events.Stamp { return at }, Keys: func() Keys { return Keys{Keys: keys} }}
}

// serve answers as a member does, and returns its address.
func serve(t *testing.T, p *Peer, change func(http.ResponseWriter) (status int, answer string)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = p.Verify(r, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		p.SignAnswer(w, r, http.StatusOK, []byte("yes"))
		status, answer := change(w)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	p.Address = s.URL + "/"
	return s.URL
}

func honest(http.ResponseWriter) (int, string) { return http.StatusOK, "yes" }

// TestPost lets members call each other while keys are exchanged, and finds what no member
// says.
func TestPost(t *testing.T) {
	const now = events.Stamp(1_800_000_000_000)
	for name, test := range map[string]struct {
		caller, called *Peer
		answer         func(http.ResponseWriter) (int, string)
		says           string // the error; "" for none
	}{
		"same key":             {member(now, old), member(now, old), honest, ""},
		"new key here":         {member(now, old, fresh), member(now, fresh, old), honest, ""},
		"a minute apart":       {member(now, old), member(now.Add(window), old), honest, ""},
		"no key":               {member(now), member(now, old), honest, "not signed"},
		"another key":          {member(now, fresh), member(now, old), honest, "no key of this group"},
		"other key, same name": {member(now, sign.Key{ID: "k1", Secret: fresh.Secret}), member(now, old), honest, "no key of this group"},
		"too late":             {member(now, old), member(now.Add(window+time.Millisecond), old), honest, "another address or time"},
		"too early":            {member(now, old), member(now.Add(-window-time.Millisecond), old), honest, "another address or time"},
		"another answer":       {member(now, old), member(now, old), func(http.ResponseWriter) (int, string) { return http.StatusOK, "no" }, "its answer is not signed"},
		"another status":       {member(now, old), member(now, old), func(http.ResponseWriter) (int, string) { return http.StatusAccepted, "yes" }, "its answer is not signed"},
		"unsigned refusal":     {member(now, old), member(now, old), func(http.ResponseWriter) (int, string) { return http.StatusConflict, "no" }, "it answers 409 Conflict: no"},
		"unsigned answer": {member(now, old), member(now, old), func(w http.ResponseWriter) (int, string) {
			w.Header().Del(Header)
			return http.StatusOK, "yes"
		}, "its answer is not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer, err := test.caller.Post(t.Context(), serve(t, test.called, test.answer), "/v1/asks", []byte("may I"))
			switch {
			case test.says == "" && (err != nil || status != http.StatusOK || string(answer) != "yes"):
				t.Errorf("%d %q, %v", status, answer, err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || answer != nil):
				t.Errorf("%q, %v, want %q", answer, err, test.says)
			}
		})
	}
}

// TestVerify refuses what was signed for another address, path or body.
// TestRefusal takes a refusal that is signed for an answer.
func TestRefusal(t *testing.T) {
	p := member(1_800_000_000_000, old)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.SignAnswer(w, r, http.StatusConflict, []byte("no"))
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "no")
	}))
	t.Cleanup(s.Close)
	if status, answer, err := p.Post(t.Context(), s.URL, "/v1/asks", nil); err != nil || status != http.StatusConflict || string(answer) != "no" {
		t.Errorf("%d %q, %v", status, answer, err)
	}
}

// TestLongAnswer reads what a member knows of many guards.
func TestLongAnswer(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 4<<20)
	p := member(1_800_000_000_000, old)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.SignAnswer(w, r, http.StatusOK, long)
		_, _ = w.Write(long)
	}))
	t.Cleanup(s.Close)
	_, answer, err := p.Post(t.Context(), s.URL, "/v1/asks", nil)
	if err != nil || !bytes.Equal(answer, long) {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
}

func TestVerify(t *testing.T) {
	p := member(1_800_000_000_000, old)
	p.Address = "http://here:8080"
	for _, test := range []struct {
		address, path, body string
		want                error
	}{
		{"http://here:8080", "/v1/asks", "b", nil},
		{"http://here:8080/", "/v1/asks", "b", nil},
		{"http://rogue:8080", "/v1/asks", "b", ErrOtherUse},
		{"http://here:8080", "/v1/asks?stop=all", "b", ErrForged},
		{"http://here:8080", "/v1/asks", "c", ErrForged},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/asks", nil)
		r.Header.Set(Header, p.prove(p.Keys(), test.address, test.path, []byte(test.body)))
		if err := p.Verify(r, []byte("b")); !errors.Is(err, test.want) {
			t.Errorf("%v: %v", test, err)
		}
	}
	for _, header := range []string{"", "x", "1 2", "x http://here:8080 k=k1,v1=00", "1 2 3 4"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/asks", nil)
		r.Header.Set(Header, header)
		if err := p.Verify(r, nil); !errors.Is(err, ErrUnproven) {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestOnlyHTTPS calls no address in the clear where certificates are the only proof.
func TestOnlyHTTPS(t *testing.T) {
	p := member(0)
	p.TLS, p.Client = true, &http.Client{Timeout: time.Minute, Transport: refuses{t}}
	if _, _, err := p.Post(t.Context(), "http://rogue:1", "/v1/asks", nil); err == nil || !strings.Contains(err.Error(), "--member-key-file") {
		t.Error(err)
	}
}

type refuses struct{ t *testing.T }

func (r refuses) RoundTrip(*http.Request) (*http.Response, error) {
	r.t.Error("it is called")
	return nil, errors.New("called")
}
