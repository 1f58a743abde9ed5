package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// secured makes a certificate in dir for a weir on loopback. It returns the flags by which weir shows it, and what
// a client needs to know it.
func secured(dir string) (flags []string, client *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	shown, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	files := []string{filepath.Join(dir, "weir.pem"), filepath.Join(dir, "weir.key")}
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: shown}, {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(files[i], pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, nil, err
		}
	}
	known, err := x509.ParseCertificate(shown)
	if err != nil {
		return nil, nil, err
	}
	client = &tls.Config{RootCAs: x509.NewCertPool()}
	client.RootCAs.AddCert(known)
	return []string{"--tls-cert-file", files[0], "--tls-key-file", files[1]}, client, nil
}
