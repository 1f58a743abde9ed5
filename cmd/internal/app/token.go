package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

func readTokens(o Options) (tokens, error) {
	var t tokens
	var err error
	if t.loopback, err = loopback(o.Listen); err != nil {
		return t, err
	}
	read := func(what, path string, sum *[sha256.Size]byte, has *bool) error {
		b, err := readSecret(path)
		if err != nil {
			return fmt.Errorf("%s token: %w", what, err)
		}
		*sum, *has = sha256.Sum256(b), b != nil
		return nil
	}
	if err := errors.Join(read("admin", o.AdminTokenFile, &t.admin, &t.hasAdmin), read("intake", o.IntakeTokenFile, &t.intake, &t.hasIntake)); err != nil {
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
func (t *tokens) check(r *http.Request, a access) *httpError {
	needed := a == admin || a == sender && t.hasIntake || a != public && !t.loopback
	if !needed {
		return nil
	}
	if a == admin && !t.hasAdmin {
		return &httpError{status: http.StatusForbidden, detail: "this changes something, and weir was started without an admin token file; start it with one"}
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
	return &httpError{status: http.StatusUnauthorized, detail: "send the token as: Authorization: Bearer <token>"}
}
