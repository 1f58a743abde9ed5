package switchfile

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strings"
	"time"

	"weir/sink/recipient"
)

// Approvals say how persons are asked whether held work goes on.
type Approvals struct {
	// URL is where people reach weir; links begin with it.
	URL string `yaml:"url"`
	// Unanswered is what happens when no person answers: Deny, Allow or Hold.
	Unanswered string `yaml:"unanswered"`
	// Grant is the part of a limit that an approval adds to it, and For is how long that lasts.
	Grant float64       `yaml:"grant"`
	For   time.Duration `yaml:"for"`
	// Tiers are asked in turn.
	Tiers []Tier `yaml:"tiers"`
	SMTP  *SMTP  `yaml:"smtp"`
}

// The values of Approvals.Unanswered.
const (
	Deny  = "deny"  // stop the work
	Allow = "allow" // approve it
	Hold  = "hold"  // change nothing
)

// Tier is one place where persons are asked.
type Tier struct {
	Name string `yaml:"name"`
	// Wait is how long the tier has before the next one is asked.
	Wait time.Duration `yaml:"wait"`
	// As is the principal that answers by the links of this tier; "" for a place that several persons read.
	As string `yaml:"as"`
	// One of the three is given.
	Slack     string   `yaml:"slack"` // URL of an incoming webhook
	SlackFile string   `yaml:"slack-file"`
	Teams     string   `yaml:"teams"` // URL of a workflow
	TeamsFile string   `yaml:"teams-file"`
	Email     []string `yaml:"email"`
}

// SMTP is the server that takes the mails.
type SMTP struct {
	Server       string `yaml:"server"` // host:port; port 465 begins with TLS, others by STARTTLS
	From         string `yaml:"from"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password-file"`
	CAFile       string `yaml:"ca-file"`
	Plain        bool   `yaml:"plain"` // send without TLS

	Password string         `yaml:"-"` // of PasswordFile
	Roots    *x509.CertPool `yaml:"-"` // of CAFile; nil: those of the system
}

// The bounds and defaults of approvals.
const (
	maxTiers     = 8
	maxAddresses = 20
	minWait      = time.Second
	maxWait      = 24 * time.Hour
	minFor       = time.Minute
	maxFor       = 7 * 24 * time.Hour
	maxGrant     = 100

	defaultWait  = 10 * time.Minute
	defaultFor   = time.Hour
	defaultGrant = 0.5
)

func (a *Approvals) check(dir string) error {
	if _, err := recipient.Parse(a.URL); err != nil {
		return fmt.Errorf("url: %w; it is the address at which people reach weir", err)
	}
	a.URL = strings.TrimRight(a.URL, "/")
	if a.Unanswered == "" {
		a.Unanswered = Deny
	}
	if words := []string{Deny, Allow, Hold}; !slices.Contains(words, a.Unanswered) {
		return fmt.Errorf("unanswered is %q; want %s", a.Unanswered, strings.Join(words, ", "))
	}
	if a.Grant == 0 {
		a.Grant = defaultGrant
	}
	// Written so, it refuses NaN as well.
	if !(a.Grant > 0 && a.Grant <= maxGrant) {
		return fmt.Errorf("grant is %v; want a part of the limit above 0, such as 0.5, and at most %d", a.Grant, maxGrant)
	}
	if a.For == 0 {
		a.For = defaultFor
	}
	if a.For < minFor || a.For > maxFor {
		return fmt.Errorf("for is %v; want from %v to %v", a.For, minFor, maxFor)
	}
	if len(a.Tiers) == 0 || len(a.Tiers) > maxTiers {
		return fmt.Errorf("it has %d tiers; want from 1 to %d", len(a.Tiers), maxTiers)
	}
	seen, mails := make(map[string]bool), false
	for i := range a.Tiers {
		t := &a.Tiers[i]
		if err := t.check(dir); err != nil {
			return fmt.Errorf("tiers[%d]: %w", i, err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tiers[%d]: name %q is used twice", i, t.Name)
		}
		seen[t.Name], mails = true, mails || len(t.Email) > 0
	}
	if mails && a.SMTP == nil {
		return errors.New("smtp is missing: a tier has email")
	}
	if a.SMTP != nil {
		if err := a.SMTP.check(dir); err != nil {
			return fmt.Errorf("smtp: %w", err)
		}
	}
	return nil
}

func (t *Tier) check(dir string) (err error) {
	if err := checkName(t.Name); err != nil {
		return err
	}
	if t.Wait == 0 {
		t.Wait = defaultWait
	}
	if t.Wait < minWait || t.Wait > maxWait {
		return fmt.Errorf("wait is %v; want from %v to %v", t.Wait, minWait, maxWait)
	}
	places := 0
	for _, given := range []bool{t.Slack+t.SlackFile != "", t.Teams+t.TeamsFile != "", len(t.Email) > 0} {
		if given {
			places++
		}
	}
	if places != 1 {
		return errors.New("want one of slack, teams and email")
	}
	switch {
	case len(t.Email) > maxAddresses:
		return fmt.Errorf("email has %d addresses; want at most %d", len(t.Email), maxAddresses)
	case len(t.Email) > 0:
		for i, text := range t.Email {
			if t.Email[i], err = address(text); err != nil {
				return fmt.Errorf("email %q: %w", text, err)
			}
		}
	case t.Slack+t.SlackFile != "":
		t.Slack, err = oneOf(dir, "slack", t.Slack, t.SlackFile)
	default:
		t.Teams, err = oneOf(dir, "teams", t.Teams, t.TeamsFile)
	}
	return err
}

// address returns the bare address of a mailbox, such as ann@example.com.
func address(text string) (string, error) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return "", err
	}
	return a.Address, nil
}

func (s *SMTP) check(dir string) (err error) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("server is %q; want a host and a port, such as smtp.example.com:587", s.Server)
	}
	if s.From, err = address(s.From); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if (s.User == "") != (s.PasswordFile == "") {
		return errors.New("user and password-file are given together")
	}
	if s.Plain && s.User != "" {
		return errors.New("plain sends a password without TLS; leave out user or plain")
	}
	if s.PasswordFile != "" {
		text, err := read(dir, s.PasswordFile)
		if err != nil {
			return err
		}
		s.Password = string(text)
	}
	if s.CAFile != "" {
		text, err := read(dir, s.CAFile)
		if err != nil {
			return err
		}
		s.Roots = x509.NewCertPool()
		if !s.Roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate", s.CAFile)
		}
	}
	return nil
}

// Place names the kind of place for people, without its address.
func (t *Tier) Place() string {
	switch {
	case t.Slack != "":
		return "Slack"
	case t.Teams != "":
		return "Teams"
	}
	return "e-mail"
}
