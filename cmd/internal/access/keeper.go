package access

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Options are the files that say who is who. None has to be given.
type Options struct {
	AdminTokenFile  string // tokens of who may do everything
	IntakeTokenFile string // tokens of who may do what programs do, see Client
	File            string // the access file

	// Certificates tells that clients may show certificates which were verified: whoever
	// does is a client as by the intake token, or, with an access file, who it names.
	Certificates bool
}

// Keeper knows who everybody is. Make it with New. Any goroutine may use it.
type Keeper struct {
	o    Options
	salt [sha256.Size]byte
	now  atomic.Pointer[register]
	load sync.Mutex
}

// register is what the files say. It never changes; another one takes its place.
type register struct {
	byToken       map[[sha256.Size]byte]*Principal // by the salted hash of the hash of the token
	byCertificate map[string]*Principal
	anyone        *Principal // who shows a certificate of which nothing is said; nil for nobody
	buckets       map[string]*bucket
	own           []byte // the token that weir shows other members
	hasAdmin      bool   // somebody may operate
	hasIntake     bool   // somebody else is known
	files         []string
}

// New reads the files.
func New(o Options) (*Keeper, error) {
	k := &Keeper{o: o}
	_, _ = rand.Read(k.salt[:]) // which never fails
	return k, k.Load()
}

// Load reads the files again. After an error everything is as it was.
func (k *Keeper) Load() error {
	k.load.Lock()
	defer k.load.Unlock()
	next := &register{byToken: make(map[[sha256.Size]byte]*Principal), byCertificate: make(map[string]*Principal), buckets: make(map[string]*bucket)}
	var faults []error
	shared := func(path, what string, roles Roles) (own []byte) {
		if path == "" {
			return nil
		}
		next.files = append(next.files, path)
		tokens, err := ReadTokens(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s token: %w", what, err))
			return nil
		}
		p := &Principal{Name: what + " token", roles: roles}
		for _, t := range tokens {
			next.byToken[k.hide(sha256.Sum256(t))] = p
		}
		return tokens[0]
	}
	// What both files hold is the admin token.
	intake := shared(k.o.IntakeTokenFile, "intake", Client)
	admin := shared(k.o.AdminTokenFile, "admin", Everything)
	next.hasAdmin, next.hasIntake = admin != nil, intake != nil
	if next.own = intake; intake == nil {
		next.own = admin
	}
	if k.o.File != "" {
		faults = append(faults, k.read(next))
	} else if k.o.Certificates {
		next.anyone, next.hasIntake = &Principal{Name: "certificate", roles: Client}, true
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	k.now.Store(next)
	return nil
}

// read reads the access file.
func (k *Keeper) read(next *register) error {
	next.files = append(next.files, k.o.File)
	text, err := os.ReadFile(k.o.File)
	if err != nil {
		return fmt.Errorf("access file: %w", err)
	}
	entries, files, err := parse(k.o.File, text)
	if err != nil {
		return err
	}
	next.files = append(next.files, files...)
	for _, e := range entries {
		p := e.principal
		next.hasIntake = true
		next.hasAdmin = next.hasAdmin || p.roles&Operate != 0
		if e.rate > 0 { // what was used up stays so, or reading the file again would give it back
			if old := k.now.Load(); old != nil && old.buckets[p.Name] != nil {
				p.bucket = old.buckets[p.Name]
				p.bucket.change(e.rate)
			} else {
				p.bucket = newBucket(e.rate)
			}
			next.buckets[p.Name] = p.bucket
		}
		for _, sum := range e.tokens {
			if other := next.byToken[k.hide(sum)]; other != nil {
				return fmt.Errorf("%s: %s has the %s; each needs its own", k.o.File, p.Name, other.Name)
			}
			next.byToken[k.hide(sum)] = p
		}
		for _, c := range e.certificates {
			if !k.o.Certificates {
				return fmt.Errorf("%s: %s has a certificate, and nothing verifies those of clients; name their authorities by tls-client-ca-file", k.o.File, p.Name)
			}
			next.byCertificate[c] = p
		}
	}
	return nil
}

// hide makes the hash of a token one that nobody else knows, so that how long it takes to
// look for it says nothing.
func (k *Keeper) hide(sum [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append(k.salt[:len(k.salt):len(k.salt)], sum[:]...))
}

// Files are those that Load reads.
func (k *Keeper) Files() []string { return slices.Clone(k.now.Load().files) }

// HasAdmin reports whether there is anybody who may give orders.
func (k *Keeper) HasAdmin() bool { return k.now.Load().hasAdmin }

// HasIntake reports whether there is anybody else who is known.
func (k *Keeper) HasIntake() bool { return k.now.Load().hasIntake }

// Strict reports whether everybody has to say who he is, also on this machine.
func (k *Keeper) Strict() bool { return k.o.File != "" || k.o.Certificates }

// Own is the token that weir shows other members of its group; nil when it has none.
func (k *Keeper) Own() []byte { return k.now.Load().own }

// ByToken returns who has the token; nil when nobody does.
func (k *Keeper) ByToken(token string) *Principal {
	return k.now.Load().byToken[k.hide(sha256.Sum256([]byte(token)))]
}

// Who returns who sends the request. given tells that it shows something, also when that is
// nobody's.
func (k *Keeper) Who(r *http.Request) (p *Principal, given bool) {
	if token, ok := Token(r); ok {
		return k.ByToken(token), true
	}
	return k.ByCertificate(r), r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// ByCertificate returns who sends the request by the certificate that was verified; nil
// when none was, or nobody is known by it.
func (k *Keeper) ByCertificate(r *http.Request) *Principal {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	now, leaf := k.now.Load(), r.TLS.VerifiedChains[0][0]
	names := append(slices.Clone(leaf.DNSNames), leaf.Subject.CommonName)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	for _, name := range names {
		if p := now.byCertificate[name]; p != nil {
			return p
		}
	}
	return now.anyone
}

// Token is what the request shows as a token.
func Token(r *http.Request) (token string, ok bool) {
	if token, ok = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token, true
	}
	token = r.Header.Get("X-Api-Key") // as the clients of LangSmith send it
	return token, token != ""
}
