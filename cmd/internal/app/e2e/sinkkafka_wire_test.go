package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"

	eventkafka "weir/events/kafka"
)

// wire stands between a client and the brokers, to disturb what they say to each other
// about produce requests. It works with any broker.
type wire struct {
	mu sync.Mutex
	// request gets each request in the place of the broker, numbered from 0 since it was
	// set. An error breaks the connection.
	request func(n int, send func() error) error
	// answer may change each answer, numbered likewise. An error breaks the connection
	// before the client sees it.
	answer             func(n int, answer []byte) error
	requests, answered int
}

// tap makes the connections of a client go through a wire. The client must be new.
func tap(c *eventkafka.Cluster) *wire {
	w := new(wire)
	transport := c.Client().Transport.(*kafkago.Transport)
	dial := transport.Dial
	transport.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wireConn{Conn: conn, wire: w, produces: make(map[uint32]bool)}, nil
	}
	return w
}

// onProduce sets what disturbs; nil disturbs nothing.
func (w *wire) onProduce(request func(n int, send func() error) error, answer func(n int, answer []byte) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.answer, w.requests, w.answered = request, answer, 0, 0
}

// sent returns how many produce requests there were.
func (w *wire) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// wireConn hands on whole frames: four bytes of size and what they count.
type wireConn struct {
	net.Conn
	wire     *wire
	mu       sync.Mutex
	produces map[uint32]bool // correlation ids

	writing []byte // the part of a request that was written
	reading []byte // the part of an answer that was not read
}

const produceKey = 0

func (c *wireConn) Write(b []byte) (int, error) {
	c.writing = append(c.writing, b...)
	for len(c.writing) >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(c.writing))
		if len(c.writing) < size {
			break
		}
		frame := slices.Clone(c.writing[:size])
		c.writing = c.writing[size:]
		if err := c.pass(frame); err != nil {
			return 0, errors.Join(err, c.Conn.Close())
		}
	}
	return len(b), nil
}

func (c *wireConn) pass(frame []byte) error {
	send := func() error {
		_, err := c.Conn.Write(frame)
		return err
	}
	if binary.BigEndian.Uint16(frame[4:]) != produceKey {
		return send()
	}
	c.mu.Lock()
	c.produces[binary.BigEndian.Uint32(frame[8:])] = true
	c.mu.Unlock()
	c.wire.mu.Lock()
	request, n := c.wire.request, c.wire.requests
	c.wire.requests++
	c.wire.mu.Unlock()
	if request == nil {
		return send()
	}
	return request(n, send)
}

func (c *wireConn) Read(b []byte) (int, error) {
	if len(c.reading) == 0 {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, frame); err != nil {
			return 0, err
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
			return 0, err
		}
		if len(frame) >= 8 {
			if err := c.change(frame); err != nil {
				return 0, errors.Join(err, c.Conn.Close())
			}
		}
		c.reading = frame
	}
	n := copy(b, c.reading)
	c.reading = c.reading[n:]
	return n, nil
}

func (c *wireConn) change(frame []byte) error {
	c.mu.Lock()
	id := binary.BigEndian.Uint32(frame[4:])
	produce := c.produces[id]
	delete(c.produces, id)
	c.mu.Unlock()
	if !produce {
		return nil
	}
	c.wire.mu.Lock()
	answer, n := c.wire.answer, c.wire.answered
	c.wire.answered++
	c.wire.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(n, frame)
}

// spoil makes the answer to a produce request say another error code, and no offset.
func spoil(answer []byte, code int16) {
	// size, correlation id, one topic: its name, one partition: its number, the code
	at := 4 + 4 + 4
	at += 2 + int(binary.BigEndian.Uint16(answer[at:])) + 4 + 4
	binary.BigEndian.PutUint16(answer[at:], uint16(code))
	binary.BigEndian.PutUint64(answer[at+2:], 1<<64-1)
}
