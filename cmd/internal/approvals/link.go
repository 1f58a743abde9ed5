package approvals

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

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
func (l *Link) token(secret []byte) string {
	text, err := json.Marshal(l)
	if err != nil { // all of it is text and numbers
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(linkCode(secret, text))
}

func linkCode(secret, text []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(linkHead))
	h.Write(text)
	return h.Sum(nil)
}

// readLink returns the link of a token that one of the secrets has signed; nil for any other text.
func readLink(token string, secrets [][]byte) *Link {
	body, code, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || len(token) > maxToken {
		return nil
	}
	given, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return nil
	}
	for _, secret := range secrets {
		if len(secret) == 0 || !hmac.Equal(given, linkCode(secret, text)) {
			continue
		}
		l := new(Link)
		if json.Unmarshal(text, l) != nil || l.Action != Approve && l.Action != Deny {
			return nil
		}
		return l
	}
	return nil
}
