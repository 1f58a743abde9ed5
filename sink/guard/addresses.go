package guard

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// addresses are those of weir: of one process, or of the members of a group. A guard uses one of them
// until it does not answer, and then the next one. Any goroutine may use them.
type addresses struct {
	list  []string
	turns atomic.Int64 // how often an address was left
}

// parseAddresses reads addresses with commas between them.
func parseAddresses(text string) (*addresses, error) {
	a := &addresses{}
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("guard: %q is no address of weir; want for example http://127.0.0.1:8080", u.Redacted())
		}
		a.list = append(a.list, strings.TrimRight(strings.TrimSpace(one), "/"))
	}
	return a, nil
}

// present returns the address that is used now. turn is for leave.
func (a *addresses) present() (url string, turn int64) {
	turn = a.turns.Load()
	return a.list[turn%int64(len(a.list))], turn
}

// leave goes on to the next address, unless the one of that turn was left already.
func (a *addresses) leave(turn int64) { a.turns.CompareAndSwap(turn, turn+1) }
