package main

import (
	"net"
	"path/filepath"
	"testing"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
)

func TestTellSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	under := func(socket string) *cli.Env {
		return &cli.Env{Getenv: func(name string) string {
			if name == "NOTIFY_SOCKET" {
				return socket
			}
			return ""
		}}
	}
	if err := operate.TellSystemd(under(socket), operate.SystemdReady); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, err := l.Read(got)
	if err != nil || string(got[:n]) != "READY=1" {
		t.Errorf("systemd was told %q (%v)", got[:n], err)
	}
	if err := operate.TellSystemd(under(""), operate.SystemdReady); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	if err := operate.TellSystemd(under(socket+".gone"), operate.SystemdReady); err == nil {
		t.Error("nobody listens, and there is no error")
	}
}
