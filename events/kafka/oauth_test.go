package kafka

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/sasl"
)

// said is the first message of a login.
func said(t *testing.T, m sasl.Mechanism) (string, error) {
	t.Helper()
	if m.Name() != "OAUTHBEARER" {
		t.Errorf("the mechanism is called %s", m.Name())
	}
	_, first, err := m.Start(t.Context())
	return string(first), err
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := (OAuth{TokenFile: file}).mechanism(); err == nil {
		t.Error("a file that is not there is a token")
	}
	if err := os.WriteFile(file, []byte("begin"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := OAuth{TokenFile: file, Extensions: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}}.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"first", "second"} { // it is exchanged
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := said(t, m); err != nil || got != "n,,\x01auth=Bearer "+token+"\x01identityPoolId=pool-2\x01logicalCluster=lkc-1\x01\x01" {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, text := range []string{"", "  \n", "two words"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := said(t, m); err == nil {
			t.Errorf("%q is the token of %q", got, text)
		}
	}
}

func TestClientCredentials(t *testing.T) {
	asked, status := 0, http.StatusOK
	var form map[string][]string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		_ = r.ParseForm()
		form = r.Form
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		id, secret, _ := r.BasicAuth()
		if status == http.StatusOK {
			_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "for-" + id, "token_type": "Bearer", "expires_in": 3600})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_client", "error_description": secret})
	}))
	defer provider.Close()
	o := OAuth{TokenURL: provider.URL, ClientID: "weir", Secret: "open sesame", Scopes: []string{"kafka"}, Audience: "brokers"}
	m, err := o.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := said(t, m); err != nil || got != "n,,\x01auth=Bearer for-weir\x01\x01" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if asked != 1 || form["grant_type"][0] != "client_credentials" || form["scope"][0] != "kafka" || form["audience"][0] != "brokers" {
		t.Errorf("asked %d times, with %v", asked, form)
	}
	status = http.StatusUnauthorized
	if m, err = o.mechanism(); err != nil {
		t.Fatal(err)
	}
	if _, err := said(t, m); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: invalid_client") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a refused client: %v", err)
	}
}

func TestRefusedToken(t *testing.T) {
	m := &bearer{}
	if done, _, err := m.Next(t.Context(), nil); !done || err != nil {
		t.Errorf("an empty answer: %v, %v", done, err)
	}
	_, _, err := m.Next(t.Context(), []byte(`{"status":"invalid_token","scope":"kafka"}`))
	if err == nil || !strings.HasSuffix(err.Error(), "the broker rejected the token: invalid_token; it wants the scope kafka") {
		t.Error(err)
	}
}

func TestOAuthSettings(t *testing.T) {
	for _, o := range []OAuth{{}, {TokenFile: "a", TokenURL: "https://b"}, {TokenURL: "https://b"}, {TokenURL: "b", ClientID: "c", Secret: "s"},
		{TokenFile: "oauth_test.go", Extensions: map[string]string{"auth": "x"}}, {TokenFile: "oauth_test.go", Extensions: map[string]string{"a1": "x"}}, {TokenFile: "oauth_test.go", Extensions: map[string]string{"a": "x\x01y"}}} {
		if _, err := o.mechanism(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
