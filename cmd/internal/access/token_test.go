package access

import (
	"net/http"
	"testing"
)

// TestToken reads the token in each form in which clients send it.
func TestToken(t *testing.T) {
	for _, c := range []struct {
		name, value, token string
		given              bool
	}{
		{"Authorization", "Bearer t", "t", true},
		{"Authorization", "Bearer ", "", true},
		{"Authorization", "Basic dGVuYW50OnQ=", "t", true}, // tenant:t
		{"Authorization", "Basic dGVuYW50Og==", "", true},  // tenant:
		{"Authorization", "Digest t", "", false},
		{"Authorization", "", "", false},
		{"X-Api-Key", "t", "t", true},
		{"X-Api-Key", "", "", false},
		{"X-Other", "t", "", false},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set(c.name, c.value)
		if token, given := Token(r); token != c.token || given != c.given {
			t.Errorf("%s: %s: token %q, given %t; want %q, %t", c.name, c.value, token, given, c.token, c.given)
		}
	}
	both := &http.Request{Header: http.Header{"Authorization": {"Digest x"}, "X-Api-Key": {"t"}}}
	if token, given := Token(both); token != "t" || !given {
		t.Errorf("beside other credentials: token %q, given %t", token, given)
	}
}
