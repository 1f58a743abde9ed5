package access

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// SessionLife is how long a browser stays signed in.
const SessionLife = 12 * time.Hour

// sessionsPerToken bounds what sign-ins take of memory. One more ends the oldest session of
// the same token, so a client cannot end the sessions of others by signing in again and again.
const sessionsPerToken = 16

// Sessions are the browsers that signed in with a token. They live in memory: a restart ends
// all of them. Any goroutine may use it.
type Sessions struct {
	keeper *Keeper
	now    func() time.Time

	mu sync.Mutex
	// The key is a hash of the id, so the time of a lookup reveals nothing about ids.
	byID map[[sha256.Size]byte]session
}

// session keeps a hash of its token instead of a Principal, so that a session has the roles that
// the token has now, and none once the token is revoked.
type session struct {
	token   [sha256.Size]byte // as Keeper.hide makes it
	expires time.Time
}

// NewSessions returns an empty set. now is the clock by which sessions expire.
func NewSessions(k *Keeper, now func() time.Time) *Sessions {
	return &Sessions{keeper: k, now: now, byID: make(map[[sha256.Size]byte]session)}
}

// Begin starts a session and returns its id. Without a principal that has the token there is none.
func (s *Sessions) Begin(token string) (id string, p *Principal, expires time.Time) {
	hidden := s.keeper.hide(sha256.Sum256([]byte(token)))
	if p = s.keeper.now.Load().byToken[hidden]; p == nil {
		return "", nil, time.Time{}
	}
	id, now := rand.Text(), s.now()
	expires = now.Add(SessionLife)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(hidden, now)
	s.byID[sha256.Sum256([]byte(id))] = session{token: hidden, expires: expires}
	return id, p, expires
}

// makeRoom removes expired sessions, and the oldest one of a token that has too many. The caller
// holds mu.
func (s *Sessions) makeRoom(token [sha256.Size]byte, now time.Time) {
	var oldest [sha256.Size]byte
	var first time.Time
	n := 0
	for key, x := range s.byID {
		switch {
		case !now.Before(x.expires):
			delete(s.byID, key)
		case x.token == token:
			if n++; first.IsZero() || x.expires.Before(first) {
				oldest, first = key, x.expires
			}
		}
	}
	if n >= sessionsPerToken {
		delete(s.byID, oldest)
	}
}

// Who returns the principal of a session and when the session expires; nil if the id is unknown,
// the session has expired, or its token was revoked. An expired session is removed by the next
// sign-in.
func (s *Sessions) Who(id string) (p *Principal, expires time.Time) {
	s.mu.Lock()
	x, ok := s.byID[sha256.Sum256([]byte(id))]
	s.mu.Unlock()
	if !ok || !s.now().Before(x.expires) {
		return nil, time.Time{}
	}
	if p = s.keeper.now.Load().byToken[x.token]; p == nil {
		return nil, time.Time{}
	}
	return p, x.expires
}

// End ends a session. Ids that are unknown are ignored.
func (s *Sessions) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}
