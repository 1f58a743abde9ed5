package access

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSessions signs in with two tokens: a session has the roles of its token as long as the
// token is valid and the session has not expired, and many sign-ins end only sessions of their
// own token.
func TestSessions(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_000_000, 0)
	ann, bob := strings.Repeat("a", 32), strings.Repeat("b", 32)
	write(t, filepath.Join(dir, "ann"), ann)
	write(t, filepath.Join(dir, "bob"), bob)
	file := write(t, filepath.Join(dir, "access.yaml"), "ann: {token-file: ann, roles: operate}\nbob: {token-file: bob, roles: observe}\n")
	k, err := New(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	s := NewSessions(k, func() time.Time { return now })
	want := func(id, name string, roles Roles) {
		t.Helper()
		p, _ := s.Who(id)
		switch {
		case name == "" && p != nil:
			t.Errorf("the session is one of %s, want none", p.Name)
		case name != "" && (p == nil || p.Name != name || p.roles != roles):
			t.Errorf("the session is one of %+v, want %s", p, name)
		}
	}
	if id, p, _ := s.Begin("wrong"); id != "" || p != nil {
		t.Error("a wrong token begins a session")
	}
	first, _, _ := s.Begin(ann)
	want(first, "ann", Operate|Observe)
	want("", "", 0)
	want(first+"x", "", 0)

	now = now.Add(time.Second)
	for range 3 * sessionsPerToken {
		last, _, _ := s.Begin(bob)
		want(last, "bob", Observe)
	}
	want(first, "ann", Operate|Observe)
	if len(s.byID) != sessionsPerToken+1 {
		t.Errorf("%d sessions are kept", len(s.byID))
	}

	// The roles follow the file.
	write(t, file, "ann: {token-file: ann, roles: observe}\nbob: {token-file: bob, roles: observe}\n")
	if err := k.Load(); err != nil {
		t.Fatal(err)
	}
	want(first, "ann", Observe)
	write(t, file, "bob: {token-file: bob, roles: observe}\n")
	if err := k.Load(); err != nil {
		t.Fatal(err)
	}
	want(first, "", 0)

	now = now.Add(time.Second) // the oldest gives way, and these two are newer than the others
	second, _, expires := s.Begin(bob)
	third, _, _ := s.Begin(bob)
	s.End(third)
	want(third, "", 0)
	want(second, "bob", Observe)
	now = expires.Add(-1)
	want(second, "bob", Observe)
	now = expires
	want(second, "", 0)
	s.Begin(bob)
	if len(s.byID) != 1 {
		t.Errorf("%d sessions are kept, want the new one alone", len(s.byID))
	}
}
