// Package stack tries docker-compose.yml as it is, with a real Docker Engine and a real
// Docker Compose, in a network and mounts of their own: `make stack`. The script beside it
// fetches what that needs. Images that only a registry has are played by stand-ins, which
// the trial names.
package stack
