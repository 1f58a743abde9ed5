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
	"text/template"
	"time"

	"weir/cmd/weirtest"
)

// gateway is a program before tools that has weir check each request.
type gateway struct {
	name, file string // its configuration, in sink/check/gateways/testdata
	path       string // of requests whose refusal is no answer of a tool
	args       func(folder, file, listen string) []string
}

var gateways = []gateway{
	{"envoy", "envoy-grpc.yaml", "/problem/mcp", func(_, file, _ string) []string {
		return []string{"-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"}
	}},
	{"traefik", "traefik.yaml", "/mcp", func(_, file, listen string) []string {
		return []string{"--entrypoints.agents.address=127.0.0.1:" + listen, "--providers.file.filename=" + file, "--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=ERROR"}
	}},
	{"caddy", "Caddyfile", "/mcp", func(_, file, _ string) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", file}
	}},
	{"nginx", "nginx.conf", "/mcp", func(folder, file, _ string) []string { return []string{"-p", folder, "-c", file} }},
}

// gatewayUser is a user that the configurations know. No request is hers.
type gatewayUser struct{ Name, SHA, Bcrypt string }

// gatewayFields are what a configuration is filled in with. Closed gateways refuse requests while weir does
// not answer.
type gatewayFields struct {
	Listen, Weir, GRPC, Tools, Folder string
	Users                             []gatewayUser
	Closed                            bool
}

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
		f := gatewayFields{Listen: strconv.Itoa(port), Tools: tools, GRPC: w.grpc[n%3], Folder: filepath.Join(w.dir, g.name), Closed: true,
			Users: []gatewayUser{{"alice", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "$2a$04$hPbUAdo35x3HBX.wRd./1uYHRQPp0VJ2QpgoKPeEwDbWwV8Jax0U."}}}
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
func (w *switches) startGateway(g gateway, f *gatewayFields, root string) error {
	text, err := template.ParseFiles(filepath.Join(root, "sink/check/gateways/testdata", g.file))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.Folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.Folder, "users"), []byte(f.Users[0].Name+":"+f.Users[0].SHA+"\n"), 0o600); err != nil {
		return err
	}
	var filled strings.Builder
	if err := text.Execute(&filled, f); err != nil {
		return err
	}
	file := filepath.Join(f.Folder, g.file)
	if err := os.WriteFile(file, []byte(filled.String()), 0o600); err != nil {
		return err
	}
	log, err := os.Create(f.Folder + ".log")
	if err != nil {
		return err
	}
	run := exec.Command(filepath.Join(w.gateways, "bin", g.name), g.args(f.Folder, file, f.Listen)...)
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
				w.problem("%s ended: %v; see %s", g.name, err, log.Name())
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
func (w *switches) through(ctx context.Context, g gateway, listen string) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	w.dispatch(g.name, func(i int) bool {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"q":"%d"}}}`, i, i)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+listen+g.path, strings.NewReader(body))
		if err != nil {
			return false
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "X-Agent-Id": g.name, "X-Correlation-Id": fmt.Sprintf("%s-%d", g.name, i%w.flows),
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
