package main

import (
	"io"
	"net"
	"sync"
)

// proxy forwards connections to an address, until it is cut: then it closes them and takes no others.
type proxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// newProxy returns one that forwards to an address at which something will listen.
func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{Listener: l, to: to, conns: make(map[net.Conn]bool)}
	go p.serve()
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		if !p.keep(in) {
			_ = in.Close()
			continue
		}
		go func() {
			defer p.drop(in)
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				return
			}
			if !p.keep(out) {
				_ = out.Close()
				return
			}
			defer p.drop(out)
			go func() {
				defer p.drop(in)
				_, _ = io.Copy(in, out)
			}()
			_, _ = io.Copy(out, in)
		}()
	}
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = true
	}
	return !p.cut
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = c.Close()
	delete(p.conns, c)
}

// set cuts the way, or opens it again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		if cut {
			_ = c.Close()
		}
	}
}
