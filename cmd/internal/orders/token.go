package orders

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// SignToken returns the token of what a link says. head keeps the signatures of one kind of links apart from
// those of others by the same secret.
func SignToken(head string, secret []byte, link any) string {
	text, err := json.Marshal(link)
	if err != nil { // all of it is text and numbers
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(tokenCode(head, secret, text))
}

func tokenCode(head string, secret, text []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(head))
	h.Write(text)
	return h.Sum(nil)
}

// ReadToken reads a token that one of the secrets has signed; false for any other text, and for one with more
// than most bytes. Empty secrets sign nothing.
func ReadToken(head, token string, most int, secrets [][]byte, link any) bool {
	if len(token) > most {
		return false
	}
	body, code, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return false
	}
	given, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return false
	}
	for _, secret := range secrets {
		if len(secret) > 0 && hmac.Equal(given, tokenCode(head, secret, text)) {
			return json.Unmarshal(text, link) == nil
		}
	}
	return false
}
