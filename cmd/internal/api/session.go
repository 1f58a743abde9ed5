package api

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/problem"
	"weir/events"
)

// The page signs in once with a token and then shows a cookie. The cookie holds a random id,
// which the server maps to the token (see access.Sessions); scripts cannot read it.

const (
	sessionPath = "/v1/inspect/session"
	signInPath  = "/v1/inspect/signin"
	signOutPath = "/v1/inspect/signout"
)

// maxSignIn bounds the body of a sign-in, which any client may send.
const maxSignIn = 4 << 10

// sessions signs browsers in and out.
type sessions struct {
	door   *door
	logger *slog.Logger
}

// routes are open to all: a browser has no token before it signs in.
func (b *sessions) routes() []route {
	return []route{
		{"GET", sessionPath, public, b.serveSession},
		{"POST", signInPath, public, b.serveSignIn},
		{"POST", signOutPath, public, b.serveSignOut},
	}
}

// sessionAnswer says what the page may do. The reasons are empty for what it may do; the page
// shows them on buttons that it disables.
type sessionAnswer struct {
	Name    string         `json:"name,omitempty"`   // of the principal
	Named   bool           `json:"named,omitempty"`  // orders carry this name
	Roles   []string       `json:"roles,omitempty"`  // of the principal
	Expires events.RFC3339 `json:"expires,omitzero"` // of the session, if there is one
	SignIn  bool           `json:"sign_in"`          // there are tokens to sign in with
	Orders  string         `json:"no_orders,omitempty"`
	StopAll string         `json:"no_stop_all,omitempty"`
}

// sessionOf describes the principal of a page; expires is zero without a session.
func (b *sessions) sessionOf(p *access.Principal, expires time.Time) sessionAnswer {
	keeper := b.door.keeper
	s := sessionAnswer{SignIn: keeper.HasAdmin() || keeper.HasIntake()}
	if p != nil {
		s.Name, s.Named = p.Name, p.Named
	}
	if !expires.IsZero() {
		s.Expires = events.RFC3339(events.StampOf(expires))
	}
	s.Roles, s.Orders = p.RoleNames(), b.door.noOrders(p)
	if s.StopAll = s.Orders; s.StopAll == "" && p.Bound() {
		s.StopAll = p.Name + " is bound to some flows, and this stops all flows"
	}
	return s
}

// noOrders says why the principal may give no orders; "" if it may.
func (d *door) noOrders(p *access.Principal) string {
	switch {
	case !d.keeper.HasAdmin():
		return "weir was started without an admin token: start it with --admin-token-file or an access file"
	case p == nil:
		return "sign in with a token that may operate"
	case !p.May(access.Operate):
		return fmt.Sprintf("%s may only look: sign in with a token of the role operate", p.Name)
	}
	return ""
}

// serveSession is what the page asks first: what it may do.
func (b *sessions) serveSession(w http.ResponseWriter, r *http.Request) error {
	var expires time.Time
	if c := b.door.cookie(r); c != nil {
		_, expires = b.door.sessions.Who(c.Value)
	}
	p, _ := b.door.who(r, operator)
	return answer(w, b.sessionOf(p, expires))
}

// serveSignIn exchanges a token for a session cookie. Requests of other origins are refused
// before they come here (see newServer).
func (b *sessions) serveSignIn(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	var asked struct{ Token string }
	if err := readAsked(w, r, &asked); err != nil {
		return err
	}
	id, p, expires := b.door.sessions.Begin(asked.Token)
	if p == nil {
		return &problem.Error{Status: http.StatusUnauthorized, Detail: "weir does not know this token"}
	}
	b.endSession(r)
	b.setCookie(w, r, id, int(access.SessionLife.Seconds()))
	b.logger.Info("a browser signed in", "principal", p.Name, "peer", r.RemoteAddr, "until", expires.UTC())
	return answer(w, b.sessionOf(p, expires))
}

func (b *sessions) serveSignOut(w http.ResponseWriter, r *http.Request) error {
	b.endSession(r)
	b.setCookie(w, r, "", -1)
	return answer(w, b.sessionOf(b.door.keeper.ByCertificate(r), time.Time{}))
}

func (b *sessions) endSession(r *http.Request) {
	if c := b.door.cookie(r); c != nil {
		b.door.sessions.End(c.Value)
	}
}

func (b *sessions) setCookie(w http.ResponseWriter, r *http.Request, id string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: id, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure(r)})
}

// secure reports whether the browser uses TLS, to weir or to a proxy before it. A client that
// claims it wrongly gets a cookie that it never sends back.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// cookieName has the port, because browsers send the cookies of a host to all of its ports: two
// weirs on one machine would end each other's sessions. By the prefix __Host- the browser takes
// the cookie from this host alone, over TLS.
func cookieName(r *http.Request) string {
	name := "weir-session"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if secure(r) {
		return "__Host-" + name
	}
	return name
}

// cookie returns the cookie of a session; nil if there is none, or if a page of another origin
// sent it. SameSite keeps it from pages of other sites, but another port of this host is the
// same site.
func (d *door) cookie(r *http.Request) *http.Cookie {
	if d.sessions == nil || !ofThisPage(r) {
		return nil
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	return c
}

// ofThisPage reports whether a browser sent the request for a page of this origin. Old browsers,
// and all browsers over plain HTTP to another machine, send no Sec-Fetch-Site; they still send
// Origin with each request that changes something.
func ofThisPage(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
	case "same-origin":
		return true
	case "none": // the user typed the address
		return reads
	default:
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		return err == nil && u.Host == r.Host
	}
	return reads
}

// bySession are the needs that a session meets: what the page does. It sends no events and no
// checks, so the cookie opens no route for them.
var bySession = [reloader + 1]bool{reader: true, follower: true, trier: true, operator: true}

// who returns the sender of a request, by its token, its session or its certificate, in this order:
// the token and the session were chosen for weir, while a browser shows its certificate to every
// server that requests it. given is as in access.Keeper.Who.
func (d *door) who(r *http.Request, n need) (p *access.Principal, given bool) {
	if !bySession[n] { // such as the lines of a stream of checks, each of which is admitted anew
		return d.keeper.Who(r)
	}
	if _, ok := access.Token(r); !ok {
		if c := d.cookie(r); c != nil {
			if p, _ := d.sessions.Who(c.Value); p != nil {
				return p, true
			}
		}
	}
	return d.keeper.Who(r)
}
