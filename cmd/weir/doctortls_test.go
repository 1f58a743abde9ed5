package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// certified makes a self-signed certificate, and returns the flags of
// a weir that shows it.
func certified(t *testing.T, name string, until time.Time) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-1000 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	for suffix, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: certificate}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path+suffix, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--tls-cert-file", path + ".pem", "--tls-key-file", path + ".key"}
}

// TestDoctorByTLS asks a weir that uses TLS what its sources lack, with any signer of its
// certificate, and looks at that certificate.
func TestDoctorByTLS(t *testing.T) {
	shown := certified(t, "shown", time.Now().Add(900*time.Hour))
	r := startRun(t, append(shown, "--in-memory", "--metrics", "", "--self-test", "0")...)
	defer r.end(syscall.SIGTERM)
	f := func(code int, flags []string, wants ...string) {
		t.Helper()
		got, out, errs := weirNow(t, "", append([]string{"doctor", "--in-memory", "--listen", strings.TrimPrefix(r.url, "http://")}, flags...)...)
		for _, want := range wants {
			if got != code || !strings.Contains(out, want) {
				t.Errorf("exit code %d, want %d and %q in\n%s%s", got, code, want, out, errs)
			}
		}
	}
	f(0, shown, "ok   tls", "ok   sources")
	f(0, certified(t, "other", time.Now().Add(900*time.Hour)), "warn tls        the weir at", "shows another certificate than")
	f(0, certified(t, "soon", time.Now().Add(time.Hour)), "warn tls", "expires at")
	f(3, certified(t, "late", time.Now().Add(-time.Hour)), "fail tls", "has expired at", "weir takes it up by itself")
}
