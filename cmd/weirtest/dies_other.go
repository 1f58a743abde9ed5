//go:build !linux

package weirtest

import "syscall"

// diesWithUs cannot promise it here: Cleanup ends the process unless the test program is killed.
func diesWithUs() *syscall.SysProcAttr { return nil }
