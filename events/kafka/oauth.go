package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// OAuth says where the tokens of OAUTHBEARER come from: a file, or an OpenID Connect provider that
// gives them for the credentials of a client.
type OAuth struct {
	// TokenFile holds a token. It is read at each login, so that a renewal only replaces the file.
	TokenFile string

	// TokenURL is the token endpoint of the provider. It needs ClientID and Secret.
	TokenURL, ClientID string
	Secret             string
	Scopes             []string
	Audience           string // sent as audience where it is set

	// Extensions are sent to the broker with the token, such as logicalCluster and identityPoolId
	// of Confluent Cloud.
	Extensions map[string]string
	HTTP       *http.Client // for the provider; nil is one with a limit of 10 s
}

// patience bounds a request for a token.
const patience = 10 * time.Second

// extension is what RFC 7628 allows as a name and a value.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]+$`)
)

// mechanism returns the login. It asks no provider yet. The errors name the setting that is wrong,
// and none holds a secret.
func (o OAuth) mechanism() (sasl.Mechanism, error) {
	for name, value := range o.Extensions {
		if !extensionName.MatchString(name) || name == "auth" || !extensionValue.MatchString(value) {
			return nil, fmt.Errorf("extension %q of the login: want letters as a name, not auth, and printable text as a value", name)
		}
	}
	m := &bearer{extensions: o.Extensions}
	switch {
	case o.TokenFile != "" && o.TokenURL != "":
		return nil, errors.New("oauthbearer: give a file with a token or the URL of a provider, not both")
	case o.TokenFile != "":
		m.tokens = tokenFile(o.TokenFile)
		_, err := m.tokens.Token() // one that is missing from the start is a mistake
		return m, err
	case o.TokenURL == "":
		return nil, errors.New("oauthbearer: give a file with a token, or the URL of a provider")
	case o.ClientID == "" || o.Secret == "":
		return nil, errors.New("oauthbearer: the provider wants the id of a client, as the user, and its secret, as the password")
	}
	if u, err := url.Parse(o.TokenURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("oauthbearer: %q is no URL of a token endpoint", o.TokenURL)
	}
	config := clientcredentials.Config{ClientID: o.ClientID, ClientSecret: o.Secret, TokenURL: o.TokenURL, Scopes: o.Scopes}
	if o.Audience != "" {
		config.EndpointParams = url.Values{"audience": {o.Audience}}
	}
	hc := o.HTTP
	if hc == nil {
		hc = &http.Client{Timeout: patience}
	}
	// One token serves all connections until shortly before it expires.
	m.tokens = config.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, hc))
	return m, nil
}

// tokenFile reads a token from a file.
type tokenFile string

// Token implements oauth2.TokenSource.
func (f tokenFile) Token() (*oauth2.Token, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("token for the brokers: %w", err)
	}
	token := string(bytes.TrimSpace(text))
	if token == "" {
		return nil, fmt.Errorf("token for the brokers: %s is empty", string(f))
	}
	return &oauth2.Token{AccessToken: token}, nil
}

// bearer is SASL OAUTHBEARER of RFC 7628.
type bearer struct {
	tokens     oauth2.TokenSource
	extensions map[string]string
}

// Name implements sasl.Mechanism.
func (*bearer) Name() string { return "OAUTHBEARER" }

// Start implements sasl.Mechanism: a token for each connection.
func (m *bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	token, err := m.tokens.Token()
	if err != nil {
		return nil, nil, fmt.Errorf("get a token for the brokers: %w", withoutBody(err))
	}
	if strings.ContainsAny(token.AccessToken, "\x01\r\n ") {
		return nil, nil, errors.New("the token holds blanks or control characters: is it a token?")
	}
	var b strings.Builder
	b.WriteString("n,,\x01auth=Bearer " + token.AccessToken + "\x01")
	for _, name := range slices.Sorted(maps.Keys(m.extensions)) {
		b.WriteString(name + "=" + m.extensions[name] + "\x01")
	}
	b.WriteString("\x01")
	return m, []byte(b.String()), nil
}

// withoutBody is an error of a provider without what it answered, which may repeat what it was sent.
func withoutBody(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return err
	}
	status := "no answer"
	if e.Response != nil {
		status = e.Response.Status
	}
	text := "the token endpoint answered " + status
	if e.ErrorCode != "" {
		text += ": " + e.ErrorCode
	}
	if e.Response != nil && (e.Response.StatusCode == http.StatusBadRequest || e.Response.StatusCode == http.StatusUnauthorized) {
		return fmt.Errorf("%w: %s: are the client's id, its secret and the scopes right?", ErrLogin, text)
	}
	return errors.New(text)
}

// Next implements sasl.StateMachine. The broker answers nothing to a token that it takes, and an
// object with a status to one that it refuses.
func (m *bearer) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	var refused struct{ Status, Scope string }
	if json.Unmarshal(challenge, &refused) != nil || refused.Status == "" {
		refused.Status = "no reason was given"
	}
	text := "the broker rejected the token: " + refused.Status
	if refused.Scope != "" {
		text += "; it wants the scope " + refused.Scope
	}
	return false, nil, fmt.Errorf("%w: %s", ErrLogin, text)
}
