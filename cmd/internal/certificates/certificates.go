// Package certificates loads TLS certificates and authorities and reloads them without a restart.
package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"weir/cmd/internal/filewatch"
)

// Files are where certificates stand, as PEM.
// What stands in them may change; the paths stay.
type Files struct {
	Certificate string // of the server, and what may stand between it and its authority
	Key         string
	// ClientAuthorities sign the certificates of clients and of other members; "" asks
	// clients for none, and trusts other members by the system's authorities.
	ClientAuthorities string
}

// Given reports whether there is to be TLS.
// One file alone is enough to say so, and Open then complains about what is missing.
func (f *Files) Given() bool { return f.Certificate != "" || f.Key != "" || f.ClientAuthorities != "" }

// Source is certificates that may change. Make it with Open; nil is that of a server in the
// clear. Any goroutine may use it.
type Source struct {
	files Files
	now   atomic.Pointer[pair]
}

// pair is what was read at one time. It never changes; another one takes its place.
type pair struct {
	certificate tls.Certificate
	authorities *x509.CertPool // nil: none
}

// Open reads the files; without any it returns nil.
// An error ends the start: to speak in the clear instead would be worse.
func Open(f Files) (*Source, error) {
	if !f.Given() {
		return nil, nil
	}
	if f.Certificate == "" || f.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key: give both tls-cert-file and tls-key-file")
	}
	s := &Source{files: f}
	return s, s.Load()
}

// maxPEM bounds a file of certificates or a key, in bytes. The authorities that systems trust take
// 200 KiB.
const maxPEM = 4 << 20

// Load reads the files again.
// After an error what was read before stays in use: a certificate and a key that do not
// belong together may be two halves of an exchange that is under way.
func (s *Source) Load() error {
	if s == nil {
		return nil
	}
	chain, err := filewatch.Read(s.files.Certificate, maxPEM)
	if err != nil {
		return fmt.Errorf("certificate of the server: %w", err)
	}
	key, err := filewatch.Read(s.files.Key, maxPEM)
	if err != nil {
		return fmt.Errorf("key of the server: %w", err)
	}
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("certificate of the server: %s and %s: %w", s.files.Certificate, s.files.Key, err)
	}
	next := &pair{certificate: certificate}
	if path := s.files.ClientAuthorities; path != "" {
		text, err := filewatch.Read(path, maxPEM)
		if err != nil {
			return fmt.Errorf("authorities of clients: %w", err)
		}
		if next.authorities = x509.NewCertPool(); !next.authorities.AppendCertsFromPEM(text) {
			return fmt.Errorf("authorities of clients: %s holds no certificate as PEM", path)
		}
	}
	s.now.Store(next)
	return nil
}

// Paths are the files that Load reads.
// A caller that watches them calls Load when they change.
func (s *Source) Paths() (list []string) {
	if s == nil {
		return nil
	}
	for _, path := range []string{s.files.Certificate, s.files.Key, s.files.ClientAuthorities} {
		if path != "" {
			list = append(list, path)
		}
	}
	return list
}

// AsksClients reports whether certificates of clients are verified.
// Whose they are is for package access to say.
func (s *Source) AsksClients() bool { return s != nil && s.files.ClientAuthorities != "" }

// Server returns the settings of a listener that speaks the protocols, such as h2. Where
// certificates of clients are verified, mustShow refuses who shows none. Sessions are not
// resumed, because one of before would outlive the authority that was taken out.
// The files are looked up for each handshake, so a listener that is open goes on with new
// ones.
func (s *Source) Server(mustShow bool, protocols ...string) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := s.now.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, SessionTicketsDisabled: true, Certificates: []tls.Certificate{now.certificate}}
		switch {
		// No client is asked.
		case now.authorities == nil:
		case mustShow:
			c.ClientCAs, c.ClientAuth = now.authorities, tls.RequireAndVerifyClientCert
		default:
			c.ClientCAs, c.ClientAuth = now.authorities, tls.VerifyClientCertIfGiven
		}
		return c, nil
	}
	return c
}

// Serving is the certificate that the server shows.
// It is the one in the file, not what stands between it and its authority.
func (s *Source) Serving() *x509.Certificate { return s.now.Load().certificate.Leaf }

// ToItself returns the transport by which a program on this machine sends requests to the server. The
// program knows the certificate from the same file, whatever authority has signed it.
// It is for weir doctor: the address may be one that the certificate does not name.
func (s *Source) ToItself() *http.Transport {
	t := s.Transport()
	t.DialTLSContext = nil
	// No chain and no name is verified; instead the certificate has to be the very same.
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error {
		if !c.PeerCertificates[0].Equal(s.Serving()) {
			return ErrOther
		}
		return nil
	}}
	return t
}

// ErrOther says that a server shows another certificate than that in its file.
var ErrOther = errors.New("another certificate is shown than that in the file")

// Transport returns what other members are asked by: they are trusted by the authorities,
// and shown the server's own certificate. A nil Source asks like any client.
// Each connection that is opened looks up the certificates, as listeners do.
func (s *Source) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Asks of many flows are passed on to one owner at the same time; with net/http's two nearly each
	// of them would open a connection.
	t.MaxIdleConnsPerHost, t.MaxIdleConns = 64, 1024
	if s == nil {
		return t
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		now := s.now.Load()
		d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: now.authorities, Certificates: []tls.Certificate{now.certificate}}}
		return d.DialContext(ctx, network, address)
	}
	return t
}
