package clients

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain runs the tests where the agents reach nothing but loopback, which needs root.
func TestMain(m *testing.M) {
	if os.Getenv(programs) == "" || os.Getenv(shut) != "" || os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Env = append(os.Environ(), shut+"=1")
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := self.Run(); self.ProcessState == nil {
		fmt.Fprintf(os.Stderr, "*** THE NETWORK IS OPEN to the agents: %v ***\n", err)
		os.Exit(m.Run())
	}
	os.Exit(self.ProcessState.ExitCode())
}
