package app

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
)

// gatewayClient speaks HTTP/2 as gateways do.
func gatewayClient() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// askByGRPC sends a message, of which only a part may come, and returns the gRPC status.
func (r *running) askByGRPC(c *http.Client, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", "http://"+r.GatewayAddr()+"/envoy.service.auth.v3.Authorization/Check", body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Trailer.Get("Grpc-Status"), err
}

// counted is a body of which is known when it was read to where it stops.
type counted struct {
	io.Reader
	stop <-chan struct{}
	once sync.Once
	sent *sync.WaitGroup
}

func (c *counted) Read(p []byte) (int, error) {
	if n, _ := c.Reader.Read(p); n > 0 {
		return n, nil
	}
	c.once.Do(c.sent.Done)
	<-c.stop
	return 0, io.ErrUnexpectedEOF
}

// TestClaimsTakeNoMemory opens streams that claim a long message and send its first bytes.
func TestClaimsTakeNoMemory(t *testing.T) {
	r := begin(t, Options{AuthzGRPC: "127.0.0.1:0"})
	const streams, claim = 400, 1 << 20
	head := binary.BigEndian.AppendUint32([]byte{0}, claim)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := make(chan struct{})
	var sent, asked sync.WaitGroup
	for range 4 {
		client := gatewayClient()
		for range streams / 4 {
			sent.Add(1)
			asked.Go(func() {
				body := &counted{Reader: &bytesOnce{head}, stop: stop, sent: &sent}
				_, _ = r.askByGRPC(client, body)
				body.once.Do(sent.Done) // on a slow machine a call may be over before its body was read
			})
		}
	}
	sent.Wait()
	// One that says all of it is answered, though all others are in the middle of theirs:
	// that they are is what the answer proves, for calls are taken in order on a connection.
	if code, err := r.askByGRPC(gatewayClient(), &bytesOnce{[]byte{0, 0, 0, 0, 0}}); err != nil || code == "" {
		t.Errorf("status %q, %v", code, err)
	}
	runtime.ReadMemStats(&after)
	if took := int64(after.TotalAlloc - before.TotalAlloc); took > streams*claim/2 { // the clients and all else of the process included
		t.Errorf("%d streams that claim %d bytes each took %d", streams, claim, took)
	}
	close(stop)
	asked.Wait()
}

// bytesOnce reads its bytes once.
type bytesOnce struct{ rest []byte }

func (b *bytesOnce) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestGatewaysAreNotLockedOut holds more connections open than there may be.
func TestGatewaysAreNotLockedOut(t *testing.T) {
	r := begin(t, Options{AuthzGRPC: "127.0.0.1:0"})
	for range 256 + 50 {
		c, err := net.Dial("tcp", r.GatewayAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			t.Fatal(err)
		}
	}
	if code, err := r.askByGRPC(gatewayClient(), &bytesOnce{[]byte{0, 0, 0, 0, 0}}); err != nil || code == "" {
		t.Errorf("status %q, %v", code, err)
	}
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	head := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	return string(head) + payload
}

// TestAnswersThatNobodyTakes asks on many streams whose client leaves no window for an answer:
// what waits to be taken is bounded, and other gateways are answered.
func TestAnswersThatNobodyTakes(t *testing.T) {
	r := begin(t, Options{AuthzGRPC: "127.0.0.1:0"})
	const (
		connections, streams, most        = 4, 240, 64
		data, headers, settings, ping     = 0, 1, 4, 6
		ack, endOfStream, endOfHeaderList = 1, 1, 4
	)
	var head strings.Builder
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/envoy.service.auth.v3.Authorization/Check"}, {"content-type", "application/grpc"}} {
		head.WriteString("\x00" + string(rune(len(h[0]))) + h[0] + string(rune(len(h[1]))) + h[1]) // as it is, known to no table
	}
	for range connections {
		c, err := net.Dial("tcp", r.GatewayAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		said := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, 0, 0, "\x00\x04\x00\x00\x00\x00") + frame(settings, ack, 0, "")
		for n := range uint32(streams) {
			said += frame(headers, endOfHeaderList, 2*n+1, head.String()) + frame(data, endOfStream, 2*n+1, "\x00\x00\x00\x00\x00")
		}
		if _, err := io.WriteString(c, said+frame(ping, 0, 0, "12345678")); err != nil {
			t.Fatal(err)
		}
		// All before the ping was read when it is answered.
		for answered := false; !answered; {
			var got [9]byte
			if _, err := io.ReadFull(c, got[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(got[:4])>>8)); err != nil {
				t.Fatal(err)
			}
			answered = got[3] == ping && got[4] == ack
		}
	}
	if code, err := r.askByGRPC(gatewayClient(), &bytesOnce{[]byte{0, 0, 0, 0, 0}}); err != nil || code == "" {
		t.Errorf("status %q, %v", code, err)
	}
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stacks.String(), "http2serverConn).runHandler("); n > connections*most || n == 0 {
		t.Errorf("%d answers wait, of %d streams on each of %d connections", n, streams, connections)
	}
}
