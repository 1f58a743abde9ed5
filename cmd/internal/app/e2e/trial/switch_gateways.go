package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/cmd/weirtest"
	"weir/cmd/weirtest/gateway"
)

// relay is a gateway before tools that has weir check each request.
type relay struct {
	gateway.Program
	path string // of requests whose refusal is no answer of a tool
}

var gateways = []relay{{gateway.Envoy, "/problem/mcp"}, {gateway.Traefik, "/mcp"}, {gateway.Caddy, "/mcp"}, {gateway.Nginx, "/mcp"}}

// toolHeader is in answers of the tools behind the gateways, and in no refusal.
const toolHeader = "Trial-Tool"

// serveTools serves the tools behind the gateways until the trial is over, and returns their port.
func (w *switches) serveTools() (port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set(toolHeader, "1") })}
	w.work.Go(func() {
		<-w.stop
		_ = s.Close()
	})
	go func() { _ = s.Serve(l) }()
	_, port, err = net.SplitHostPort(l.Addr().String())
	return port, err
}

// realGateways starts the gateways before tools, each of which asks one member, and sends calls through
// them until the trial is over.
func (w *switches) realGateways(ctx context.Context) error {
	root, err := module("weir")
	if err != nil {
		return err
	}
	tools, err := w.serveTools()
	if err != nil {
		return err
	}
	for n, g := range gateways {
		port, err := weirtest.Ports(1)
		if err != nil {
			return err
		}
		f := gateway.Settings{Listen: strconv.Itoa(port), Tools: tools, GRPC: w.grpc[n%3], Folder: filepath.Join(w.dir, g.Name), Closed: true, Users: gateway.Users("alice")}
		if _, f.Weir, err = net.SplitHostPort(w.members[n%3].listen); err != nil {
			return err
		}
		if err := w.startGateway(g, &f, root); err != nil {
			return err
		}
		w.through(ctx, g, f.Listen)
	}
	return nil
}

// startGateway starts a gateway with the configuration that users copy.
func (w *switches) startGateway(g relay, f *gateway.Settings, root string) error {
	args, err := g.Configure(filepath.Join(root, "sink/check/gateways/testdata"), f)
	if err != nil {
		return err
	}
	log, err := os.Create(f.Folder + ".log")
	if err != nil {
		return err
	}
	run := exec.Command(filepath.Join(w.gateways, "bin", g.Name), args...)
	run.Stdout, run.Stderr, run.Dir = log, log, w.dir // Traefik takes a traefik.yaml in its folder for another file
	run.Env = append(os.Environ(), "HOME="+f.Folder)
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run.Wait(); err != nil {
			select {
			case <-w.stop:
			default:
				w.problem("%s ended: %v; see %s", g.Name, err, log.Name())
			}
		}
		_ = log.Close()
	}()
	w.work.Go(func() {
		<-w.stop
		_ = run.Process.Kill()
		<-ended
	})
	return nil
}

// through calls a tool through a gateway until the trial is over.
func (w *switches) through(ctx context.Context, g relay, listen string) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	w.dispatch(g.Name, func(i int) bool {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"q":"%d"}}}`, i, i)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+listen+g.path, strings.NewReader(body))
		if err != nil {
			return false
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "X-Agent-Id": g.Name, "X-Correlation-Id": fmt.Sprintf("%s-%d", g.Name, i%w.flows),
			"Mcp-Method": "tools/call", "Mcp-Name": "search"} {
			req.Header.Set(name, value)
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		_ = resp.Body.Close()
		return resp.Header.Get(toolHeader) != ""
	}, client.CloseIdleConnections)
}
