package weirtest

import "syscall"

// diesWithUs makes the system kill the process when the test program ends.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
