package state

import "sync"

// calls counts those under way, so that Close can wait for them.
type calls struct {
	mu     sync.Mutex // guards closed, and the logs of the store
	closed bool
	// closed and users are protected by mu together: once closed is set no call starts.
	users sync.WaitGroup // calls under way
}

// enter begins a call, which leave ends. Close waits for the calls that have begun.
func (c *calls) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.users.Add(1)
	return nil
}

// leave ends a call.
func (c *calls) leave() { c.users.Done() }
