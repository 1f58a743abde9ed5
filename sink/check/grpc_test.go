package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
)

// askGRPC is a CheckRequest as Envoy sends it.
func askGRPC(method, path, body string, headers map[string]string, extensions map[string]string) []byte {
	text := func(dst []byte, n protowire.Number, s string) []byte { return message(dst, n, []byte(s)) }
	entries := func(dst []byte, n protowire.Number, m map[string]string) []byte {
		for name, value := range m {
			dst = message(dst, n, text(text(nil, 1, name), 2, value))
		}
		return dst
	}
	http := entries(text(text(text(nil, fieldMethod, method), fieldPath, path), fieldHost, "gw"), fieldHeaders, headers)
	http = text(number(http, 9, 17), fieldBody, body)
	request := message(message(nil, 1, number(nil, 1, 1795000000)), fieldHTTP, http)
	return message(nil, fieldAttributes, entries(message(nil, fieldRequest, request), fieldExtensions, extensions))
}

// readAnswer reads a CheckResponse.
func readAnswer(t testing.TB, p []byte) (status int, header map[string]string, body string) {
	t.Helper()
	told := map[string][]byte{}
	err := fields(p, func(n protowire.Number, v []byte) error {
		if n != 2 {
			return nil
		}
		return fields(v, func(n protowire.Number, v []byte) error {
			switch n {
			case 1:
				code, _ := protowire.ConsumeVarint(v[1:])
				status = int(code)
			case 2:
				return fields(v, func(_ protowire.Number, v []byte) error { return entry(v, told) })
			case 3:
				body = string(v)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	header = make(map[string]string)
	for name, value := range told {
		header[name] = string(value)
	}
	return status, header, body
}

// grpcClient calls a server by gRPC with the standard library alone.
type grpcClient struct {
	testing.TB
	url    string
	client *http.Client
}

func serveGRPC(t testing.TB, g *GRPC) *grpcClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: g, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &grpcClient{t, "http://" + l.Addr().String(), &http.Client{Transport: transport}}
}

func (c *grpcClient) call(path string, p []byte, header ...string) (answer []byte, code, message string) {
	c.Helper()
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(p)))
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+path, bytes.NewReader(append(frame, p...)))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	if len(body) >= grpcFrame {
		answer = body[grpcFrame:]
	}
	code, message = resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if code == "" { // an answer without a body has its trailers as headers
		code, message = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	return answer, code, message
}

func TestGRPC(t *testing.T) {
	var verdict *events.Verdict
	var asked events.Event
	authz := newAuthz(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
		asked = *ev
		if verdict == nil {
			return nil, ErrTimeout
		}
		return verdict, nil
	}, nil, time.Now)
	c := serveGRPC(t, &GRPC{Authz: authz, Allowed: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer secret" }})
	f := func(p []byte, status int, contentType, part string) {
		t.Helper()
		answer, code, message := c.call(grpcCheckPath, p, "Weir-Token", "secret")
		got, header, body := readAnswer(t, answer)
		if code != "0" || got != status || header["content-type"] != contentType || !strings.Contains(body, part) {
			t.Errorf("%s %q: %d %v %s; want %d %s with %s", code, message, got, header, body, status, contentType, part)
		}
	}
	headers := map[string]string{":authority": "gw", "mcp-session-id": "s1", "x-goal-turn": "2"}
	verdict = &events.Verdict{ID: "v", Mode: "enforce", Action: "allow"}
	f(askGRPC("POST", "/mcp", legacy, headers, nil), 0, "", "")
	if asked.CorrelationID != "s1" || asked.TurnID != "2" || asked.Tool.Name != "search" || asked.Tool.ArgsHash.IsZero() || asked.Tool.Server != "gw" {
		t.Errorf("asked %+v", asked)
	}
	verdict = &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "max_tool_calls_exceeded", HTTPStatus: 429, AgentMessage: "Stop."}
	f(askGRPC("POST", "/mcp", legacy, headers, nil), 200, "application/json", `"result":{"resultType":"complete","content":[{"type":"text","text":"Stop."}]`)
	f(askGRPC("POST", "/mcp", legacy, headers, map[string]string{"deny": "bare"}), 429, "application/json", `{"reason_code":"max_tool_calls_exceeded"`)
	f(askGRPC("POST", "/mcp", legacy, headers, map[string]string{"deny": "jsonrpc"}), 200, "application/json", `"code":4030`)
	f(askGRPC("POST", "/mcp", legacy[:40], maps.Collect(maps.All(headers)), nil), 429, "application/problem+json", `"status":429`) // the body was cut
	f(askGRPC("POST", "/a2a", a2a, headers, nil), 200, "application/json", `"reason":"MAX_TOOL_CALLS_EXCEEDED"`)
	f(askGRPC("POST", "/mcp", "["+strings.Repeat(legacy+",", 70)+legacy+"]", headers, nil), 413, "text/plain", "too many")

	wrong := func(want string, path string, p []byte, header ...string) {
		t.Helper()
		if _, code, message := c.call(path, p, header...); code != want {
			t.Errorf("code %s %q, want %s", code, message, want)
		}
	}
	verdict = nil
	wrong("14", grpcCheckPath, askGRPC("POST", "/mcp", legacy, headers, nil), "Weir-Token", "secret")
	wrong("3", grpcCheckPath, askGRPC("POST", "/mcp", legacy, headers, map[string]string{"deny": "gown"}), "Weir-Token", "secret")
	wrong("3", grpcCheckPath, []byte{0xff}, "Weir-Token", "secret")
	wrong("12", "/grpc.health.v1.Health/Check", nil, "Weir-Token", "secret")
	wrong("16", grpcCheckPath, nil)
	if resp, err := http.Get(c.url + grpcCheckPath); err == nil {
		_ = resp.Body.Close()
		t.Error("HTTP/1 is answered")
	}
}

// TestAPanicOfGRPCCostsOneAnswer lets the gateway go by its failure mode for that call alone.
func TestAPanicOfGRPCCostsOneAnswer(t *testing.T) {
	asked, panics := 0, 0
	authz := newAuthz(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		if asked++; asked == 1 {
			panic("planted")
		}
		return &events.Verdict{ID: "v", Mode: "enforce", Action: "allow"}, nil
	}, nil, time.Now)
	c := serveGRPC(t, &GRPC{Authz: authz, Panicked: func(fault *Panic) {
		if panics++; fault.Value != "planted" || len(fault.Stack) == 0 {
			t.Errorf("a panic is %v", fault)
		}
	}})
	for n, want := range []string{"14", "0"} {
		if _, code, message := c.call(grpcCheckPath, askGRPC("POST", "/mcp", legacy, map[string]string{"mcp-session-id": "s1"}, nil)); code != want {
			t.Errorf("call %d: code %s %q, want %s", n, code, message, want)
		}
	}
	if panics != 1 {
		t.Errorf("%d panics are counted", panics)
	}
}

func FuzzCheckRequest(f *testing.F) {
	f.Add(askGRPC("POST", "/mcp", legacy, map[string]string{"mcp-session-id": "s"}, map[string]string{"deny": "bare"}))
	f.Fuzz(func(t *testing.T, p []byte) {
		var c checkRequest
		if c.read(p) == nil {
			a := newAuthz(func(_ context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
				var again events.Event
				if err := events.Decode(raw, &again); err != nil {
					t.Errorf("%s: %v", raw, err)
				}
				return &events.Verdict{Mode: "enforce", Action: "deny"}, nil
			}, nil, time.Now)
			_, _, _ = a.Decide(t.Context(), &Forwarded{Method: c.method, Host: c.host, Path: c.path, Body: c.body, Header: func(name string) string { return string(c.headers[strings.ToLower(name)]) }})
		}
	})
}

func BenchmarkGRPC(b *testing.B) {
	authz := newAuthz(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		return &events.Verdict{Mode: "enforce", Action: "allow"}, nil
	}, nil, time.Now)
	c := serveGRPC(b, &GRPC{Authz: authz})
	p := askGRPC("POST", "/mcp", legacy, map[string]string{"mcp-session-id": "s1"}, nil)
	for b.Loop() {
		if _, code, _ := c.call(grpcCheckPath, p); code != "0" {
			b.Fatal(code)
		}
	}
}

// TestManyHeadersOfOneName reads a message of nothing but one header, many times over with
// another value: what that allocates grows with the message and not with its square.
func TestManyHeadersOfOneName(t *testing.T) {
	header := func(value string) []byte { return message(message(nil, 1, []byte("x")), 2, []byte(value)) }
	var http []byte
	for i := range 50_000 {
		http = message(http, fieldHeaders, header(strconv.Itoa(i)))
	}
	p := message(nil, fieldAttributes, message(nil, fieldRequest, message(nil, fieldHTTP, http)))
	var c checkRequest
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.read(p); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := int(after.TotalAlloc - before.TotalAlloc); took > 20*len(p) {
		t.Errorf("%d bytes were allocated for a message of %d", took, len(p))
	}
	if got := string(c.headers["x"]); !strings.HasPrefix(got, "0,1,2,") || !strings.HasSuffix(got, ",49999") {
		t.Errorf("the list is %.40q", got)
	}
}
