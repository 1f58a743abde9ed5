package operate

import (
	"fmt"
	"net"

	"weir/cmd/internal/cli"
)

// The states that systemd is notified of.
// The lines are those of sd_notify(3).
const (
	SystemdReady    = "READY=1"
	systemdStopping = "STOPPING=1"
)

// TellSystemd notifies systemd of the state of weir, when it was started by a unit of the type
// notify (see sd_notify). Without one it does nothing.
//
// An error means that systemd does not know the state, and not that weir is unwell: the caller
// goes on.
func TellSystemd(env *cli.Env, state string) error {
	socket := env.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close() // the message is sent
	}
	if err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}
