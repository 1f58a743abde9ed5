package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

// Client is what a client trusts and what it shows, as files of PEM. The zero value trusts
// the authorities that the system trusts and shows nothing.
// It is for commands that end soon: the files are read once.
type Client struct{ Authorities, Certificate, Key string }

// Transport reads the files.
// Proxies of the environment are honored as usual.
func (c Client) Transport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if c == (Client{}) {
		return t, nil
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Authorities != "" {
		text, err := os.ReadFile(c.Authorities)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate as PEM", c.Authorities)
		}
	}
	if (c.Certificate == "") != (c.Key == "") {
		return nil, errors.New("a certificate needs its key, and a key its certificate: give both")
	}
	if c.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate to show: %w", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
