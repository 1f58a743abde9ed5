package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"weir/cmd/internal/filewatch"
	"weir/sink/sign"
)

// Options are the files that say who is who. None has to be given.
// They stay for the life of a process; what stands in the files may change, see
// Keeper.Load.
type Options struct {
	AdminTokenFile  string // tokens with all rights
	IntakeTokenFile string // tokens with the rights of programs, see Client
	File            string // the access file
	MemberKeyFile   string // keys by which members of a group know each other, see MemberKeys

	// Certificates means that clients may present verified certificates. Such a client has the
	// rights of the intake token. With an access file, it has those of the principal to which the
	// file assigns the certificate.
	Certificates bool
}

// Keeper identifies the senders of requests. Make it with New. Any goroutine may use it. Requests read
// one register without a lock. A reload of the files makes another register and swaps it in at once,
// so no request ever sees half a policy.
type Keeper struct {
	o Options
	// salt is random and of this process alone, see hide.
	salt [sha256.Size]byte
	now  atomic.Pointer[register]
	// load lets one at a time read the files: SIGHUP, the route for it and the watcher of
	// the files may come together, and the older reading must not win.
	load sync.Mutex
}

// register is what the files say. It never changes; another one takes its place.
type register struct {
	// The hash of the token itself is what an access file may hold instead of the token.
	byToken map[[sha256.Size]byte]*Principal // by the salted hash of the hash of the token
	// byCertificate has the names that the access file says, see Keeper.ByCertificate.
	byCertificate map[string]*Principal
	anyone        *Principal // a sender with a certificate that has no entry; nil for none
	// buckets are those of the access file by the name of their principal, kept only so
	// that the next register finds them.
	buckets   map[string]*bucket
	members   sign.Keys // see Keeper.MemberKeys
	orders    bool      // members prove orders of persons, too
	hasAdmin  bool      // there is an operator
	hasIntake bool      // there are other principals
	// files are all files that were read, including those that the access file names. So a watcher of
	// them also notices a changed token file.
	files   []string
	reading int64 // see Reading
}

// New reads the files. Unlike later, a fault ends the start: without the configured policy, weir would
// let in either no sender or any sender.
func New(o Options) (*Keeper, error) {
	k := &Keeper{o: o}
	_, _ = rand.Read(k.salt[:]) // which never fails
	return k, k.Load()
}

// Load reads the files again. After an error everything is as it was. Faults of several files are
// reported at once. A token that was removed from the files is invalid from the moment Load returns.
// Requests that were already let in continue.
func (k *Keeper) Load() error {
	k.load.Lock()
	defer k.load.Unlock()
	next := &register{byToken: make(map[[sha256.Size]byte]*Principal), byCertificate: make(map[string]*Principal), buckets: make(map[string]*bucket)}
	var faults []error
	var rates map[*bucket]float64
	// All tokens of one shared file are one Principal: who of those that have them sends a
	// request is not known, so it is not Named and has no rate.
	shared := func(path, what string, roles Roles) (tokens [][]byte) {
		if path == "" {
			return nil
		}
		next.files = append(next.files, path)
		var err error
		if tokens, err = ReadTokens(path); err != nil {
			faults = append(faults, fmt.Errorf("%s token: %w", what, err))
			return nil
		}
		p := &Principal{Name: what + " token", roles: roles}
		for _, t := range tokens {
			next.byToken[k.hide(sha256.Sum256(t))] = p
		}
		return tokens
	}
	// What both files hold is the admin token.
	intake := shared(k.o.IntakeTokenFile, "intake", Client)
	admin := shared(k.o.AdminTokenFile, "admin", Everything)
	next.hasAdmin, next.hasIntake = admin != nil, intake != nil
	if err := next.readMemberKeys(k.o.MemberKeyFile, intake, admin); err != nil {
		faults = append(faults, err)
	}
	if k.o.File != "" {
		var err error
		rates, err = k.read(next)
		faults = append(faults, err)
		// Without an access file any sender with a verified certificate is a client. With one, only
		// the certificates that it names have rights, because it lists all rights.
	} else if k.o.Certificates {
		next.anyone, next.hasIntake = &Principal{Name: "certificate", roles: Client}, true
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for b, rate := range rates {
		b.change(rate)
	}
	if old := k.now.Load(); old != nil {
		next.reading = old.reading + 1
	}
	k.now.Store(next)
	return nil
}

// Reading is how often the files were read with success. Who returns the same for the same request as
// long as it stays.
func (k *Keeper) Reading() int64 { return k.now.Load().reading }

// read reads the access file.
// It adds to what the shared files have put into next, which is not in use yet. Buckets that
// are taken over are in use: rates are what theirs become when nothing else is wrong.
func (k *Keeper) read(next *register) (rates map[*bucket]float64, err error) {
	next.files = append(next.files, k.o.File)
	text, err := filewatch.Read(k.o.File, maxFile)
	if err != nil {
		return nil, fmt.Errorf("access file: %w", err)
	}
	entries, files, err := parse(k.o.File, text)
	if err != nil {
		return nil, err
	}
	next.files = append(next.files, files...)
	rates = make(map[*bucket]float64)
	for _, e := range entries {
		p := e.principal
		next.hasIntake = true
		next.hasAdmin = next.hasAdmin || p.roles&Operate != 0
		if e.rate > 0 { // what was used up stays so, or reading the file again would give it back
			if old := k.now.Load(); old != nil && old.buckets[p.Name] != nil {
				p.bucket = old.buckets[p.Name]
				rates[p.bucket] = e.rate
			} else {
				p.bucket = newBucket(e.rate)
			}
			next.buckets[p.Name] = p.bucket
		}
		// parse has found tokens that two principals of the file share; here are left those
		// that stand in a shared file as well, which would make it chance who shows them.
		for _, sum := range e.tokens {
			if other := next.byToken[k.hide(sum)]; other != nil {
				return nil, fmt.Errorf("%s: %s has the %s; each needs its own", k.o.File, p.Name, other.Name)
			}
			next.byToken[k.hide(sum)] = p
		}
		for _, c := range e.certificates {
			if !k.o.Certificates {
				return nil, fmt.Errorf("%s: %s has a certificate, and nothing verifies those of clients; name their authorities by tls-client-ca-file", k.o.File, p.Name)
			}
			next.byCertificate[c] = p
		}
	}
	return rates, nil
}

// hide turns the hash of a token into one that only this process knows, so that the time of a lookup
// reveals nothing. A map compares keys byte by byte. A sender that chooses what is compared could
// guess a key by its beginnings. With the salt, no sender knows what is compared.
func (k *Keeper) hide(sum [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append(k.salt[:len(k.salt):len(k.salt)], sum[:]...))
}

// Files are those that Load reads.
func (k *Keeper) Files() []string { return slices.Clone(k.now.Load().files) }

// HasAdmin reports whether any principal may give orders, by the admin token or as an operator of the
// access file. Without one, every route that changes something says so, instead of requesting a token
// that does not exist.
func (k *Keeper) HasAdmin() bool { return k.now.Load().hasAdmin }

// HasIntake reports whether there is anybody else who is known.
// As long as there is none, programs on this machine may send and ask without a token.
func (k *Keeper) HasIntake() bool { return k.now.Load().hasIntake }

// TwoMayStop reports whether one principal of the access file may propose a stop and another confirm it. Who
// confirms may give orders about all.
func (k *Keeper) TwoMayStop() bool {
	now := k.now.Load()
	may := make(map[string]bool) // by name: whether about all
	note := func(p *Principal) {
		if p.Named && p.roles&Operate != 0 && !p.Bound() {
			may[p.Name] = len(p.Orders()) == 0
		}
	}
	for _, p := range now.byToken {
		note(p)
	}
	for _, p := range now.byCertificate {
		note(p)
	}
	for _, all := range may {
		if all {
			return len(may) >= 2
		}
	}
	return false
}

// MayStop reports whether a principal of the access file may give orders by hand about all.
func (k *Keeper) MayStop(name string) bool {
	now := k.now.Load()
	may := func(p *Principal) bool {
		return p.Named && p.Name == name && p.roles&Operate != 0 && !p.Bound() && len(p.Orders()) == 0
	}
	for _, p := range now.byToken {
		if may(p) {
			return true
		}
	}
	for _, p := range now.byCertificate {
		if may(p) {
			return true
		}
	}
	return false
}

// Strict reports whether everybody has to say who he is, also on this machine.
// It is the options that decide, not the files: one that is taken away opens nothing.
func (k *Keeper) Strict() bool { return k.o.File != "" || k.o.Certificates }

// MemberKeys are the keys by which the members of a group prove themselves to each other;
// none without a file that gives some. orders says that they prove orders of persons, too.
func (k *Keeper) MemberKeys() (keys sign.Keys, orders bool) {
	now := k.now.Load()
	return now.members, now.orders
}

// readMemberKeys takes the keys from the file for them. Without that file it derives them from
// the admin tokens, or from the intake tokens if there are no admin tokens. Programs that send
// events have the intake token, so keys of it prove no orders. An access file gives no keys: it
// may hold nothing but hashes.
func (r *register) readMemberKeys(path string, intake, admin [][]byte) (err error) {
	if path != "" {
		r.files, r.orders = append(r.files, path), true
		text, err := filewatch.Read(path, maxTokens)
		if err == nil {
			r.members, err = sign.Parse(text)
		}
		if err != nil {
			return fmt.Errorf("member key file: %s: %w", path, err)
		}
		return nil
	}
	tokens, id := intake, "intake"
	if r.orders = admin != nil; r.orders {
		tokens, id = admin, "admin"
	}
	for _, t := range tokens {
		mac := hmac.New(sha256.New, t)
		mac.Write([]byte("weir member key"))
		r.members = append(r.members, sign.Key{ID: id, Secret: mac.Sum(nil)})
	}
	return nil
}

// ByToken returns the principal with the token; nil when there is none. It takes the token as it was
// sent.
func (k *Keeper) ByToken(token string) *Principal {
	return k.now.Load().byToken[k.hide(sha256.Sum256([]byte(token)))]
}

// Who returns the sender of the request. given means that the request has credentials, even unknown
// ones. A token takes precedence over a certificate, also an unknown token. A sender with a wrong
// token gets an error. Otherwise the connection of a proxy could let it in as another principal.
func (k *Keeper) Who(r *http.Request) (p *Principal, given bool) {
	if token, ok := Token(r); ok {
		return k.ByToken(token), true
	}
	return k.ByCertificate(r), r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// ByCertificate returns the sender of the request by its verified certificate. It returns nil if there
// is no such certificate, or if it is unknown. The names of a certificate are its DNS names, then its
// common name, then its URIs, such as those of SPIFFE. The first one in the access file identifies the
// sender.
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

// Token is the token of the request. ok means that there is one, also if nothing comes after Bearer.
// It is not verified here.
func Token(r *http.Request) (token string, ok bool) {
	if credentials := r.Header.Get("Authorization"); credentials != "" {
		if token, ok = strings.CutPrefix(credentials, "Bearer "); ok {
			return token, true
		}
		if _, password, ok := r.BasicAuth(); ok { // as the SDKs of Grafana send it, behind the name of a tenant
			return password, true
		}
	}
	token = r.Header.Get("X-Api-Key") // as the clients of LangSmith send it
	return token, token != ""
}
