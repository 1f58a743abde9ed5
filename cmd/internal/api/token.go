package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"

	"weir/cmd/internal/problem"
)

// access says who may use a route.
type access uint8

const (
	public access = iota // anyone: whether weir is alive
	reader               // on loopback anyone, else who has a token
	sender               // as reader, but where there is an intake token it is needed on loopback too
	admin                // who has the admin token
)

// tokens are the secrets that open routes, as hashes, so that comparing them takes
// the same time whatever was sent.
type tokens struct {
	admin, intake       [sha256.Size]byte
	hasAdmin, hasIntake bool
	loopback            bool
}

func newTokens(o Options) (tokens, error) {
	t := tokens{admin: sha256.Sum256(o.AdminToken), intake: sha256.Sum256(o.IntakeToken), hasAdmin: o.AdminToken != nil, hasIntake: o.IntakeToken != nil}
	var err error
	if t.loopback, err = loopback(o.Listen); err != nil {
		return t, err
	}
	if !t.loopback && !t.hasAdmin && !t.hasIntake {
		return t, fmt.Errorf("listen on %s: other machines reach this address, and no token keeps them out; "+
			"give an intake or an admin token file, or listen on 127.0.0.1", o.Listen)
	}
	return t, nil
}

// has reports which of the tokens was given.
func (t *tokens) has(given string) (isAdmin, isIntake bool) {
	sum := sha256.Sum256([]byte(given))
	return t.hasAdmin && subtle.ConstantTimeCompare(sum[:], t.admin[:]) == 1, t.hasIntake && subtle.ConstantTimeCompare(sum[:], t.intake[:]) == 1
}

// check returns nil when the request may use a route of the access.
func (t *tokens) check(r *http.Request, a access) *problem.Error {
	needed := a == admin || a == sender && t.hasIntake || a != public && !t.loopback
	if !needed {
		return nil
	}
	if a == admin && !t.hasAdmin {
		return &problem.Error{Status: http.StatusForbidden, Detail: "this changes something, and weir was started without an admin token file; start it with one"}
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok { // as the clients of LangSmith send it
		given = r.Header.Get("X-Api-Key")
		ok = given != ""
	}
	isAdmin, isIntake := t.has(given)
	if ok && (isAdmin || isIntake && a != admin) {
		return nil
	}
	detail := "send the token as: Authorization: Bearer <token>"
	switch {
	case given != "" && a == admin:
		detail = "the token that was sent is not the admin token"
	case given != "":
		detail = "the token that was sent is none of this weir's"
	}
	return &problem.Error{Status: http.StatusUnauthorized, Detail: detail}
}

// loopback reports whether only this machine reaches the address.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("listen on %q: %w; want host:port", address, err)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}
