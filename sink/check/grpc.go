package check

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// GRPC is Envoy's external authorization over gRPC, the service
// envoy.service.auth.v3.Authorization. It is one call with one message each way, for
// which the HTTP/2 of the standard library and the wire format are enough; the server
// that it is given to must speak HTTP/2, unencrypted where there is no TLS.
type GRPC struct {
	// It must be set: it decides about each call.
	Authz *Authz
	// Allowed reports whether the gateway may ask; it is shown its metadata as headers.
	// nil lets everybody ask.
	Allowed func(r *http.Request) bool
	// Enter finds a place for a call, and returns what gives it back; false when there is
	// none. Without it there is no end to the places.
	Enter func(r *http.Request) (leave func(), ok bool)
	// Busy reports whether an error of the body says that there is no room for it now; nil
	// when none does.
	Busy func(error) bool
	// Panicked is called when a call panicked, which costs the answer to this call. It may be nil.
	Panicked func(*Panic)
}

// The framing of gRPC over HTTP/2.
const (
	grpcCheckPath = "/envoy.service.auth.v3.Authorization/Check"
	grpcFrame     = 5 // bytes before a message: whether it is compressed, and its length

	// maxMessage is how long a message may be: a body, once, and what there is beside it.
	maxMessage = maxForwarded + 256<<10
)

// The gRPC codes that are answered.
const (
	grpcInvalid         = 3
	grpcDenied          = 7 // in the answer: the request is refused
	grpcExhausted       = 8 // it is refused for a while
	grpcUnimplemented   = 12
	grpcUnavailable     = 14 // the gateway goes by its failure mode
	grpcUnauthenticated = 16
)

// ServeHTTP answers one call.
func (g *GRPC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this port speaks gRPC", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	// Everything is known before the first byte goes out, so a fault is never reported in the middle
	// of an answer.
	var body []byte
	var code int
	err := Caught(func() (err error) {
		body, code, err = g.serve(r)
		return err
	})
	if fault, ok := errors.AsType[*Panic](err); ok {
		if g.Panicked != nil {
			g.Panicked(fault)
		}
		body, code, err = nil, grpcUnavailable, errors.New("internal error, see the log of weir")
	}
	// A failed call has no message, only trailers.
	if code == 0 {
		frame := make([]byte, grpcFrame, grpcFrame+len(body))
		binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
		_, _ = w.Write(append(frame, body...))
	}
	// The status of gRPC comes after the body; that of HTTP is 200 all the same.
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
	if err != nil {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", grpcMessage(err))
	}
}

// grpcMessage keeps to the characters that a trailer may have.
// Percent signs would begin an escape.
func grpcMessage(err error) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '%' {
			return '?'
		}
		return r
	}, err.Error())
}

// serve returns the message that is answered, or the gRPC code of a call that failed and why.
func (g *GRPC) serve(r *http.Request) (answer []byte, code int, err error) {
	if r.URL.Path != grpcCheckPath {
		return nil, grpcUnimplemented, fmt.Errorf("there is no %s here", r.URL.Path)
	}
	// Metadata of gRPC are headers of HTTP/2, so the token is checked as that of any request.
	if token := r.Header.Get("Weir-Token"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if g.Allowed != nil && !g.Allowed(r) {
		return nil, grpcUnauthenticated, errors.New("send the token as metadata weir-token")
	}
	// A place is taken before the body is read: it is the body that takes memory.
	if g.Enter != nil {
		leave, ok := g.Enter(r)
		if !ok {
			return nil, grpcExhausted, errors.New("too many calls at one time; try again")
		}
		defer leave()
	}
	message, err := readFrame(r.Body)
	if err != nil && g.Busy != nil && g.Busy(err) {
		return nil, grpcExhausted, err
	}
	if err != nil {
		return nil, grpcInvalid, err
	}
	var c checkRequest
	if err := c.read(message); err != nil {
		return nil, grpcInvalid, err
	}
	// Soft, because the status in the message decides for Envoy whether to refuse, and any
	// status may be sent with it.
	f := Forwarded{Method: c.method, Host: c.host, Path: c.path, Address: c.address, Body: c.body, Soft: true,
		Header: func(name string) string { return string(c.headers[strings.ToLower(name)]) }}
	if f.Deny, err = ParseDenyFormat(cmp.Or(string(c.extensions["deny"]), f.Header("Weir-Deny"))); err != nil {
		return nil, grpcInvalid, err
	}
	// By the same decision as ext_authz over HTTP: the two differ in how they are spoken alone.
	refusal, remaining, err := g.Authz.Decide(r.Context(), &f)
	// A fault of the client's request is refused to the client, and is no reason for the
	// gateway to go by its failure mode.
	if e, ok := errors.AsType[*Error](err); ok {
		refusal, err = &Reply{Status: e.Status, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(e.Detail + "\n")}, nil
	}
	if err != nil {
		return nil, grpcUnavailable, err
	}
	return appendAnswer(nil, refusal, remaining), 0, nil
}

// readFrame reads the one message of a call, and that nothing follows it. Memory is bounded by
// maxMessage, whatever the length before it says.
func readFrame(r io.Reader) ([]byte, error) {
	var head [grpcFrame]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	if head[0] != 0 {
		return nil, errors.New("the message is compressed; do not compress it")
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return nil, fmt.Errorf("the message has %d bytes; send at most %d of the body", n, maxForwarded)
	}
	// The length is what the other side claims: memory is taken as bytes come.
	message, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(message) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	// More than one message would be a stream, which Check is not; what is behind the end of
	// one is a fault of the peer.
	if err == nil { // one message and its end
		if more, end := io.ReadFull(r, head[:1]); more > 0 {
			err = errors.New("there is more than one")
		} else if end != io.EOF {
			err = end
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	return message, nil
}

// checkRequest is what is read of a CheckRequest.
// Envoy gives the names of headers in lower case. Slices alias the message.
type checkRequest struct {
	method, path, host string
	address            string // of the client
	headers            map[string][]byte
	body               []byte
	extensions         map[string][]byte
}

// The numbers of fields, from the definitions of Envoy.
// Only what is read here is named. A number is good within its own message.
const (
	fieldAttributes = 1 // of CheckRequest

	fieldSource     = 1 // of AttributeContext
	fieldRequest    = 4
	fieldExtensions = 10

	fieldAddress       = 1 // of its Peer
	fieldSocketAddress = 1 // of its Address
	fieldSocketHost    = 2 // of its SocketAddress

	fieldHTTP = 2 // of its Request

	fieldMethod    = 2 // of its HttpRequest
	fieldHeaders   = 3
	fieldPath      = 4
	fieldHost      = 5
	fieldBody      = 11
	fieldRawBody   = 12
	fieldHeaderMap = 13
)

// read reads a CheckRequest. A field that is missing leaves its member empty: the request is
// then judged by what there is.
func (c *checkRequest) read(message []byte) error {
	c.headers, c.extensions = map[string][]byte{}, map[string][]byte{}
	return fields(message, func(n protowire.Number, attributes []byte) error {
		if n != fieldAttributes {
			return nil
		}
		return fields(attributes, func(n protowire.Number, v []byte) error {
			switch n {
			case fieldSource:
				return c.peer(v)
			case fieldExtensions:
				return entry(v, c.extensions)
			case fieldRequest:
				return fields(v, func(n protowire.Number, v []byte) error {
					if n != fieldHTTP {
						return nil
					}
					return fields(v, c.http)
				})
			}
			return nil
		})
	})
}

// peer reads the address of the client.
func (c *checkRequest) peer(p []byte) error {
	return fields(p, func(n protowire.Number, v []byte) error {
		if n != fieldAddress {
			return nil
		}
		return fields(v, func(n protowire.Number, v []byte) error {
			if n != fieldSocketAddress {
				return nil
			}
			return fields(v, func(n protowire.Number, v []byte) error {
				if n == fieldSocketHost {
					c.address = string(v)
				}
				return nil
			})
		})
	})
}

// http reads one field of the request that the gateway asks about.
func (c *checkRequest) http(n protowire.Number, v []byte) error {
	switch n {
	case fieldMethod:
		c.method = string(v)
	case fieldPath:
		c.path = string(v)
	case fieldHost:
		c.host = string(v)
	// Envoy sends one of them, by its setting pack_as_bytes.
	case fieldBody, fieldRawBody:
		c.body = v
	case fieldHeaders:
		return entry(v, c.headers)
	case fieldHeaderMap: // the same as a list, where a name may come again
		return fields(v, func(_ protowire.Number, v []byte) error { return entry(v, c.headers) })
	}
	return nil
}

// entry reads an entry of a map: a name and a text, or, of a header, raw bytes.
//
// What comes again is appended in place: copying all that came before for each would take
// seconds for a message of nothing but headers.
func entry(p []byte, into map[string][]byte) error {
	var name string
	var value []byte
	err := fields(p, func(n protowire.Number, v []byte) error {
		// A key is field 1 of an entry; its value is 2, or 3 where it is raw.
		if n == 1 {
			name = string(v)
		} else {
			value = v[:len(v):len(v)] // what is appended goes elsewhere, and not over the message
		}
		return nil
	})
	// A header that comes again is one list, as in HTTP; the same value twice, once in each
	// form of the map, stays one.
	if have, ok := into[name]; !ok {
		into[name] = value
	} else if !bytes.Equal(have, value) {
		into[name] = append(append(have, ','), value...)
	}
	return err
}

// fields calls fn for each field of a message that has a length; others are passed over.
func fields(p []byte, fn func(n protowire.Number, v []byte) error) error {
	for len(p) > 0 {
		n, kind, size := protowire.ConsumeTag(p)
		if size < 0 {
			return fmt.Errorf("read the message: %w", protowire.ParseError(size))
		}
		p = p[size:]
		// Numbers of other types are skipped by their kind, which protowire knows.
		if kind == protowire.BytesType {
			v, size := protowire.ConsumeBytes(p)
			if size < 0 {
				return fmt.Errorf("read the message: %w", protowire.ParseError(size))
			}
			if err := fn(n, v); err != nil {
				return err
			}
			p = p[size:]
			continue
		}
		if size = protowire.ConsumeFieldValue(n, kind, p); size < 0 {
			return fmt.Errorf("read the message: %w", protowire.ParseError(size))
		}
		p = p[size:]
	}
	return nil
}

// The numbers of fields in an OkHttpResponse.
// Of a DeniedHttpResponse the status is 1, the headers 2 and the body 3.
const (
	fieldToUpstream = 2
	fieldToClient   = 6
)

// appendAnswer appends a CheckResponse: no refusal allows, and the remaining limits go to both
// sides of the gateway.
// The order of headers is that of a map, and means nothing.
func appendAnswer(dst []byte, refusal *Reply, remaining http.Header) []byte {
	if refusal == nil {
		return message(message(dst, 1, nil), 3, appendHeader(appendHeader(nil, fieldToUpstream, remaining), fieldToClient, remaining)) // status 0
	}
	// The HTTP status is a message of its own, with the code as its field 1.
	denied := appendHeader(message(nil, 1, number(nil, 1, uint64(refusal.Status))), 2, refusal.Header)
	denied = message(denied, 3, refusal.Body)
	code := uint64(grpcDenied)
	// Waiting helps, and the code says so to clients that read codes and no headers (decision 53).
	if refusal.Header.Get("Retry-After") != "" {
		code = grpcExhausted
	}
	return message(message(dst, 1, number(nil, 1, code)), 2, denied)
}

// appendHeader appends each value as a HeaderValueOption.
// The inner message is a HeaderValue with key 1 and value 2.
func appendHeader(dst []byte, n protowire.Number, h http.Header) []byte {
	for name, values := range h {
		for _, value := range values {
			header := message(message(nil, 1, []byte(strings.ToLower(name))), 2, []byte(value))
			dst = message(dst, n, message(nil, 1, header))
		}
	}
	return dst
}

// message appends a field that has a length: a message, a text or bytes.
func message(dst []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), v)
}

// number appends a field that is a number.
func number(dst []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), v)
}
