package operate

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/api"
	"weir/cmd/internal/app"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/client"
)

// asked is the weir that doctor asks, whether or not one runs there.
type asked struct {
	client  *client.Client
	address string // as the user knows it
	// named says that a flag names it. It then has to answer; else weir may not have been started yet.
	named bool
	token string // the file with it, "" for none
}

// askBound is how long all answers of the running weir may take. It answers these requests at once.
const askBound = 10 * time.Second

// asked returns the weir to ask, by the flag --server, the address of the settings, or the environment. It is
// nil where there is none to ask, which is reported.
func (d *doctor) asked() *asked {
	const check = "running"
	listen := d.run.O.Listen
	a := &asked{address: listen, named: d.server.Given(), token: d.server.TokenOf(d.env)}
	var err error
	if a.client, err = d.server.Client(d.env); err != nil {
		d.fail(check, adviceOf(err, "name another file"), "%v", err)
		return nil
	}
	// The certificate of the settings is looked at in any case.
	own, err := certificates.Open(d.run.O.TLS)
	if err == nil && own != nil {
		d.certificate(own)
	}
	// A setting of this weir goes before a variable that is set for all commands.
	if a.named || listen == app.DefaultListen && d.env.Getenv(client.ServerVariable) != "" {
		a.address = a.client.Base
		return a
	}
	if _, port, err := net.SplitHostPort(listen); err != nil || port == "0" {
		d.ok(check, "not asked: port 0 of --listen %s is any free port; --server URL names a weir", listen)
		return nil
	}
	a.client.Base = client.URLOf(listen)
	// A weir that uses TLS is asked by the certificate of the settings, so that another one in its
	// place comes out.
	if own != nil {
		a.client.Base = "https" + strings.TrimPrefix(a.client.Base, "http")
		a.client.HTTP.Transport = own.ToItself()
	}
	return a
}

// answered is an answer of any status.
type answered struct {
	status int
	body   []byte
}

// detail is what an answer says that is an error.
func (a *answered) detail() string {
	var problem struct {
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(a.body, &problem) // what is no problem has no detail
	return problem.Detail
}

// get asks for a document with the token.
func (a *asked) get(ctx context.Context, path string) (*answered, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.client.Base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if a.client.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.client.Token)
	}
	resp, err := a.client.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	out := &answered{status: resp.StatusCode}
	out.body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<22)) // what is cut off is no JSON
	return out, err
}

// unanswered reports why no weir answers GET /readyz at the address: by an error, or by an answer that is not
// weir's.
func (a *asked) unanswered(d *doctor, answer *answered, err error) {
	text, fix := a.why(answer, err)
	switch check := "running"; {
	case errors.Is(err, certificates.ErrOther):
		d.warn("tls", "send it SIGHUP, and look in its log for why it has not taken the file up", "the weir at %s shows another certificate than %s", a.address, d.run.O.TLS.Certificate)
	case a.named:
		d.fail(check, fix, "%s", text)
	default:
		d.warn(check, fix, "%s", text)
	}
}

// why says what is at the address, and what to do about it.
func (a *asked) why(answer *answered, err error) (text, fix string) {
	base := a.client.Base
	const elsewhere = "if weir runs elsewhere, give --server URL, or --listen as weir run has it"
	if err == nil {
		switch {
		case client.WantsTLS(answer.body):
			return base + " uses TLS, and was asked without", "programs need https:// and its authority; weir doctor: --server https://HOST:PORT --ca-file FILE"
		case answer.status == http.StatusMisdirectedRequest && answer.detail() != "":
			return fmt.Sprintf("the weir at %s does not know this name (HTTP 421)", base), "use an address or localhost, or start weir with --host NAME"
		}
		return fmt.Sprintf("what answers at %s is not weir (GET /readyz: HTTP %d)", base, answer.status),
			"another program has this port, or it is the port of --metrics; " + elsewhere
	}
	var verify *tls.CertificateVerificationError
	var name *net.DNSError
	var alert tls.AlertError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing answers at %s (GET /readyz: connection refused)", base), "start weir: weir run; " + elsewhere
	case errors.Is(err, http.ErrSchemeMismatch):
		return base + " does not use TLS, and was asked by TLS", "programs need http://; or start weir with --tls-cert-file and --tls-key-file"
	case errors.As(err, &verify):
		return fmt.Sprintf("the certificate at %s is not trusted: %v", base, verify.Err), "use a name that the certificate has, and give its authority: --ca-file FILE; programs need it too"
	case errors.As(err, &alert):
		return fmt.Sprintf("%s refused the TLS connection: %v", base, alert), "it may require a certificate of its authority: --cert-file FILE --key-file FILE"
	case errors.As(err, &name):
		return fmt.Sprintf("the host of %s is not known: %v", base, name), elsewhere
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s did not answer GET /readyz within %s", base, askBound), "look for a firewall, a proxy of the environment, or a program that hangs; " + elsewhere
	}
	return fmt.Sprintf("no answer from %s: %v", base, err), elsewhere
}

// access reports what the weir takes the sender for, and returns whether it may read about all flows. A token is
// sent to be used, so one that weir does not know fails.
func (a *asked) access(ctx context.Context, d *doctor) (reads bool) {
	const check = "access"
	answer, err := a.get(ctx, "/v1/whoami")
	if err != nil {
		d.warn(check, "", "%s did not say what the sender may do: %v", a.address, err)
		return false
	}
	var me api.Whoami
	switch {
	case answer.status == http.StatusOK && json.Unmarshal(answer.body, &me) == nil && len(me.Roles) > 0:
		may := strings.Join(me.Roles, ", ")
		switch {
		case a.client.Token == "" && !slices.Contains(me.Roles, access.Ask.String()):
			d.warn(check, "give programs a token with the roles ask and ingest", "%s accepts clients like this one without a token, but no checks of theirs; roles: %s", a.address, may)
		case a.client.Token == "":
			d.ok(check, "%s accepts clients like this one without a token; roles: %s", a.address, may)
		default:
			d.ok(check, "%s knows the token in %s: %s; roles: %s", a.address, a.token, cmp.Or(me.Name, "a client of this machine"), may)
		}
		return slices.Contains(me.Roles, access.Observe.String()) && len(me.Flows) == 0
	case answer.status == http.StatusOK:
		d.warn(check, "give it a role in the access file of that weir", "%s knows the token in %s, but it has no role", a.address, a.token)
	case answer.status == http.StatusUnauthorized && a.client.Token == "":
		d.warn(check, "give one: --token-file FILE, or "+client.TokenVariable+"; programs need theirs too", "the weir at %s requires a token (HTTP 401 without one)", a.address)
	case answer.status == http.StatusUnauthorized:
		d.fail(check, "give a token of its --access-file, --intake-token-file or --admin-token-file", "the weir at %s does not know the token in %s (HTTP 401)", a.address, a.token)
	default:
		d.warn(check, "", "the weir at %s does not say what the sender may do: HTTP %d %s", a.address, answer.status, answer.detail())
	}
	return false
}
