package kafka

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Security is how brokers are verified and how this program logs in, from flags. The zero
// Security is a plain connection without login.
//
// Secure reads the files once: a changed certificate or password takes effect at the next
// start.
type Security struct {
	TLS       bool   // talk TLS; implied by CAFile and CertFile
	CAFile    string // PEM file of the authorities to trust; empty: those of the system
	CertFile  string // PEM file of this program's certificate; needs KeyFile
	KeyFile   string // PEM file of the key of CertFile
	Mechanism string // plain, scram-sha-256, scram-sha-512 or oauthbearer; empty: no login
	User      string // needed with Mechanism, but for tokens
	// A file is better than a flag, which other users of the machine can see.
	PasswordFile string // its first line is the password; needed with Mechanism, unless Password is set
	Password     []byte // the password itself, where it does not come by a file
	// OAuth is where oauthbearer has its tokens from. User and the password are ClientID and Secret
	// where these are empty.
	OAuth OAuth
	// SASL is another way to log in, such as that of package mskiam. It goes before Mechanism.
	SASL sasl.Mechanism
}

// Secure reads the files of s and sets TLS and SASL of the cluster. The errors name
// the file or the setting that is wrong; none of them holds the password.
func (c *Cluster) Secure(s Security) error {
	config, err := s.tls()
	if err != nil {
		return err
	}
	mechanism, err := s.sasl()
	if err != nil {
		return err
	}
	c.TLS, c.SASL = config, mechanism
	return nil
}

// tls gives nil when nothing about TLS is set, and an error rather than a connection that is
// less safe than what was asked for.
func (s Security) tls() (*tls.Config, error) {
	if !s.TLS && s.CAFile == "" && s.CertFile == "" && s.KeyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authorities: %w", err)
		}
		// The authorities of the system are not trusted beside those of the file.
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificates of the authorities: %s holds none in PEM", s.CAFile)
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return nil, errors.New("a certificate and its key go together: give both files or neither")
	}
	if s.CertFile != "" {
		own, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", s.CertFile, s.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// sasl gives nil when nothing about a login is set. A user without a mechanism is a mistake
// and not a connection without login.
func (s Security) sasl() (sasl.Mechanism, error) {
	if s.SASL != nil {
		return s.SASL, nil
	}
	if s.Mechanism == "" {
		if s.OAuth.TokenFile != "" || s.OAuth.TokenURL != "" {
			return nil, errors.New("a token needs the mechanism oauthbearer")
		}
		if s.User != "" || s.PasswordFile != "" || len(s.Password) > 0 {
			return nil, errors.New("a user and a password need a mechanism: plain, scram-sha-256, scram-sha-512 or oauthbearer")
		}
		return nil, nil
	}
	password, err := s.password()
	if err != nil {
		return nil, err
	}
	if s.Mechanism == "oauthbearer" {
		o := s.OAuth
		o.ClientID, o.Secret = cmp.Or(o.ClientID, s.User), cmp.Or(o.Secret, password)
		return o.mechanism()
	}
	if s.User == "" || password == "" {
		return nil, fmt.Errorf("mechanism %s needs a user and a file with the password", s.Mechanism)
	}
	switch s.Mechanism {
	case "plain":
		return plain.Mechanism{Username: s.User, Password: password}, nil
	case "scram-sha-256":
		return scramOf(scram.SHA256, s.User, password)
	case "scram-sha-512":
		return scramOf(scram.SHA512, s.User, password)
	}
	return nil, fmt.Errorf("mechanism %q: want plain, scram-sha-256, scram-sha-512 or oauthbearer", s.Mechanism)
}

// password returns the password, "" when there is none.
//
// A file that is there must hold one: an empty line is nearly always a secret that was not
// mounted.
func (s Security) password() (string, error) {
	if s.PasswordFile == "" {
		return string(s.Password), nil
	}
	text, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	// Editors of other systems end lines by two characters.
	password := string(bytes.TrimSuffix(line, []byte("\r")))
	if password == "" {
		return "", fmt.Errorf("password: the first line of %s is empty", s.PasswordFile)
	}
	return password, nil
}

// scramOf prepares user and password as SCRAM wants them.
func scramOf(a scram.Algorithm, user, password string) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(a, user, password)
	if err != nil {
		// The library's error may quote what it could not prepare.
		return nil, errors.New("the user or the password holds characters that SCRAM does not allow")
	}
	return m, nil
}
