// Package peer is how members of a group call each other over HTTP. Each side proves that it has a key of the group:
// the caller signs the request, the member that is called signs the answer.
//
// The address of a member comes from the consumer group, which programs without a key can
// join. So a request carries a signature and never a token, and an answer without a
// signature counts as no answer. A signature holds for one request, to one address, for a
// minute.
package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/sink/sign"
)

// Header holds the time, the address and the signature of a request, or the signature of an
// answer.
const Header = "Weir-Member"

// window is how old a request may be, and how far ahead. Members take the time from the
// brokers.
const window = time.Minute

// maxAnswer is the largest answer in bytes: what a member knows of 10,000 guards with long names.
const maxAnswer = 16 << 20

// Keys prove that a process is a member. The first one signs, all are accepted.
type Keys struct {
	sign.Keys
	// Orders says that only members and operators have the keys. Other keys prove checks,
	// and no orders of persons.
	Orders bool
}

// Peer is one member, as caller and as the one that is called. All methods may be called by
// many goroutines.
type Peer struct {
	Client *http.Client
	Keys   func() Keys
	Now    func() events.Stamp
	// Address is the one that this member advertises; "" for none.
	Address string
	// TLS is set where clients show certificates. Without keys a member then calls https
	// addresses only, since the certificate of the other side is its only proof.
	TLS bool
}

// Post sends a request to the member at the address and returns its answer. It returns an
// error for every status but 200, 202, 204 and 409, and for an answer that is not signed.
func (p *Peer) Post(ctx context.Context, address, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	keys, proof := p.Keys(), ""
	switch {
	case len(keys.Keys) > 0:
		proof = p.prove(keys, address, path, body)
		r.Header.Set(Header, proof)
	case p.TLS && r.URL.Scheme != "https":
		return 0, nil, errors.New("the members share no key, and this address is not https: start all members with the same --member-key-file")
	}
	response, err := p.Client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer)); err != nil {
		return 0, nil, err
	}
	failed := fmt.Errorf("it answers %s: %s", response.Status, bytes.TrimSpace(answer))
	switch status = response.StatusCode; status {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusConflict:
	default:
		return status, nil, failed
	}
	if proof == "" {
		return status, answer, nil
	}
	err = keys.Verify(signedAnswer(proof, status, answer), response.Header.Get(Header))
	switch {
	case err != nil && status == http.StatusConflict:
		return status, nil, failed
	case err != nil:
		return 0, nil, errors.New("its answer is not signed with a key of this group: it is no member, or has other tokens or another --member-key-file")
	}
	return status, answer, nil
}

// prove returns the header of a request.
func (p *Peer) prove(keys Keys, address, path string, body []byte) string {
	at := strconv.FormatInt(int64(p.Now()), 10)
	address = strings.TrimSuffix(address, "/")
	return at + " " + address + " " + keys.Sign(signedRequest(at, address, path, body))
}

// The reasons for which a request proves nothing.
var (
	ErrUnproven = errors.New("this route is for members of the group, and the request is not signed; clients use /v1/check")
	ErrForged   = errors.New("the signature of the request is of no key of this group: start all members with the same admin token file or --member-key-file")
	ErrOtherUse = errors.New("the signature of the request is for another address or time")
)

// Verify checks the proof of a request.
func (p *Peer) Verify(r *http.Request, body []byte) error {
	words := strings.Fields(r.Header.Get(Header))
	if len(words) != 3 {
		return ErrUnproven
	}
	at, to, signature := words[0], words[1], words[2]
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return ErrUnproven
	}
	if p.Keys().Verify(signedRequest(at, to, r.URL.RequestURI(), body), signature) != nil {
		return ErrForged
	}
	if age := p.Now().Sub(events.Stamp(ms)); age > window || age < -window || p.Address != "" && to != strings.TrimSuffix(p.Address, "/") {
		return ErrOtherUse
	}
	return nil
}

// SignAnswer signs an answer to a request that was verified. It comes before the header is
// written.
func (p *Peer) SignAnswer(w http.ResponseWriter, r *http.Request, status int, answer []byte) {
	if proof := r.Header.Get(Header); proof != "" {
		w.Header().Set(Header, p.Keys().Sign(signedAnswer(proof, status, answer)))
	}
}

// The first line of what is signed keeps signatures of requests, answers and orders apart.

func signedRequest(at, address, path string, body []byte) []byte {
	return append([]byte("weir member request\n"+at+"\n"+address+"\n"+path+"\n"), body...)
}

func signedAnswer(proof string, status int, answer []byte) []byte {
	return append([]byte("weir member answer\n"+proof+"\n"+strconv.Itoa(status)+"\n"), answer...)
}
