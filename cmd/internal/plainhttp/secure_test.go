package plainhttp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// certified returns the configurations of a server and of a client that knows it.
func certified(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	shown, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	known, err := x509.ParseCertificate(shown)
	if err != nil {
		t.Fatal(err)
	}
	client = &tls.Config{RootCAs: x509.NewCertPool()}
	client.RootCAs.AddCert(known)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{shown}, PrivateKey: key}}}, client
}

// TestLikeNetHTTPByTLS holds that answers by TLS are those of net/http.
func TestLikeNetHTTPByTLS(t *testing.T) {
	secure, client := certified(t)
	here, _, _, _ := serveBy(t, secure, true, handler)
	there, _, _, _ := serveBy(t, secure, false, handler)
	say := func(address string, parts ...string) string {
		conn, err := tls.Dial("tcp", address, client)
		if err != nil {
			t.Fatal(err)
		}
		return talkOn(t, conn, parts...)
	}
	plain := request("first", "Content-Type: application/json")
	for i, text := range odd {
		for about, parts := range map[string][]string{"alone": {text}, "twice": {plain, plain, text, plain}, "in parts": {text[:len(text)/2], text[len(text)/2:]}} {
			if got, want := say(here, parts...), say(there, parts...); got != want {
				t.Errorf("%d %s: %.200q\nanswered\n%.2000s\nby net/http\n%.2000s", i, about, parts, got, want)
			}
		}
	}
}

// TestPlainStayHereByTLS holds that plain requests by TLS are answered here, and that net/http gets the state of a
// connection that is handed over.
func TestPlainStayHereByTLS(t *testing.T) {
	secure, client := certified(t)
	address, handed, _, _ := serveBy(t, secure, true, handler)
	for n, text := range []string{request("abc"), "GET /else HTTP/1.1\r\nHost: h\r\n\r\n"} {
		conn, err := tls.Dial("tcp", address, client)
		if err != nil {
			t.Fatal(err)
		}
		if got := talkOn(t, conn, request("first"), text, request("last")); strings.Count(got, `"true `) != 3 {
			t.Errorf("%q is answered with %s", text, got)
		}
		if got := handed.Load(); got != int64(n) {
			t.Errorf("%d connections went to net/http, want %d", got, n)
		}
	}
}

// TestWithoutTLS sends a request without TLS to a server by TLS.
func TestWithoutTLS(t *testing.T) {
	secure, _ := certified(t)
	for _, here := range []bool{true, false} {
		address, _, _, _ := serveBy(t, secure, here, handler)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request("abc"))
		if got, _ := io.ReadAll(conn); !strings.Contains(string(got), "400 Bad Request") || !strings.Contains(string(got), "to an HTTPS server") {
			t.Errorf("here=%v: answered with %q", here, got)
		}
		_ = conn.Close()
	}
}
