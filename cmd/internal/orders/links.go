package orders

import (
	"errors"
	"time"

	"weir/events"
	"weir/events/byhand"
)

// MaxLink is how long a link is valid at most. It is less than Kept, see Link.
const MaxLink = 24 * time.Hour

// Link is an order that any holder of its token may give, once.
//
// It holds for the state that the order was in when the link was made: Revision is that of the newest
// record then, or 0 for none. Giving the order makes a newer record. So the link is used up, at every
// member and after a restart, and nothing has to be remembered for that. Records are kept for
// longer than links are valid.
type Link struct {
	Order    byhand.Order   `json:"order"`
	ForS     int64          `json:"for_s,omitempty"` // of a stop
	Revision int64          `json:"revision"`
	Until    events.RFC3339 `json:"until"`
}

// ErrLink is the error of a token that gives no order.
var ErrLink = errors.New("this link is not valid: it has expired, was used, or is not one of this weir")

// linkHead keeps signatures of these links apart from others by the same secret.
const linkHead = "weir order link\n"

// Token signs the link.
func (l *Link) Token(secret []byte) string { return SignToken(linkHead, secret, l) }

// ReadLink returns the link of a token that one of the secrets has signed and that is valid at a time.
// Whether it was used is for Book.Give to find out.
func ReadLink(token string, secrets [][]byte, now events.Stamp) (*Link, error) {
	l := new(Link)
	if !ReadToken(linkHead, token, 2*byhand.MaxRecord, secrets, l) || events.Stamp(l.Until) <= now || l.Order.Check() != nil {
		return nil, ErrLink
	}
	return l, nil
}
