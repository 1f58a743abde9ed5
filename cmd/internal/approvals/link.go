package approvals

import (
	"time"

	"weir/cmd/internal/orders"
	"weir/events"
)

// Link answers one hold, in one way, for one tier. It holds no secret of weir and is signed.
type Link struct {
	Hold   string       `json:"h"`
	Tier   string       `json:"t"`
	Action string       `json:"a"` // Approve or Deny
	Until  events.Stamp `json:"u"`
}

// The actions of links.
const (
	Approve = "approve"
	Deny    = "deny"
)

// linkHead keeps signatures of these links apart from others by the same secret.
const linkHead = "weir approval link\n"

// maxToken is more than any token has, in bytes.
const maxToken = 4096

// token signs the link.
func (l *Link) token(secret []byte) string { return orders.SignToken(linkHead, secret, l) }

// readLink returns the link of a token that one of the secrets has signed; nil for any other text.
func readLink(token string, secrets [][]byte) *Link {
	l := new(Link)
	if !orders.ReadToken(linkHead, token, maxToken, secrets, l) || l.Action != Approve && l.Action != Deny {
		return nil
	}
	return l
}

// Does says what the answer of the link does to a hold. long is how long an approval lasts.
func (l *Link) Does(h *Hold, long time.Duration) string {
	if l.Action == Approve {
		return h.Approved(long)
	}
	return h.Denied()
}
