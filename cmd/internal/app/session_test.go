package app

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/access"
)

// signIn signs a browser in and returns the Cookie header of its page.
func (r *running) signIn(token string, header ...string) string {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		r.t.Fatal(err)
	}
	got := r.do("POST", "/v1/inspect/signin", string(body), header...)
	r.want(got, 200)
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	return cookie
}

// page sends a request as a browser does for a page of weir itself.
func (r *running) page(cookie, method, path, body string) reply {
	r.t.Helper()
	return r.do(method, path, body, "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Origin", "http://"+r.Addr())
}

const stopByPage = `{"reason":"a test","by":"ann"}`

// TestSessions signs in by the page: the session has the role of its token, on the routes of the
// page alone, and ends when it expires, when the browser signs out, and when the token is revoked.
func TestSessions(t *testing.T) {
	r := people(t, Options{}, map[string]string{"eve": "roles: observe", "ann": "roles: operate", "tom": "roles: [ingest, ask]"})
	r.want(r.do("POST", "/v1/inspect/signin", `{"token":"wrong"}`), 401, "does not know this token")
	r.want(r.do("POST", "/v1/inspect/signin", `{"token":"`+strings.Repeat("x", 5000)+`"}`), 413)
	r.want(r.do("GET", "/v1/inspect/session", ""), 200, `"sign_in":true`, `"no_orders":"sign in`)

	eve, ann, tom := r.signIn(secretOf("eve")), r.signIn(secretOf("ann")), r.signIn(secretOf("tom"))
	r.want(r.page(eve, "GET", "/v1/flows", ""), 200)
	r.want(r.page(eve, "GET", "/v1/inspect/session", ""), 200, `"name":"eve"`, `eve may only look`)
	r.want(r.page(eve, "POST", "/v1/inspect/stop?flow=f", stopByPage), 403, "takes the role operate")
	r.want(r.page(tom, "GET", "/v1/flows", ""), 403, "takes the role observe")
	r.want(r.page(ann, "POST", "/v1/inspect/stop?flow=f", stopByPage), 202, `"by":"ann"`)
	if text := r.page(ann, "GET", "/v1/inspect/session", "").body; strings.Contains(text, "no_orders") || !strings.Contains(text, `"expires"`) {
		t.Errorf("the session of an operator: %s", text)
	}
	// A session is for the page: it neither sends events nor asks.
	event := lines(call("f", 1, "a", "b"))
	r.want(r.page(tom, "POST", "/v1/events", event), 401)
	r.want(r.page(tom, "POST", "/v1/check", event), 401)
	r.want(r.as("tom", "POST", "/v1/events", event), 202)
	// A token that is shown goes before the session.
	r.want(r.do("GET", "/v1/flows", "", "Cookie", ann, "Authorization", "Bearer wrong"), 401)

	r.want(r.page(eve, "POST", "/v1/inspect/signout", ""), 200, `"sign_in":true`)
	r.want(r.page(eve, "GET", "/v1/flows", ""), 401, "the session has ended")
	r.want(r.page(ann, "GET", "/v1/flows", ""), 200)

	r.fake.Advance(access.SessionLife - time.Second)
	r.want(r.page(ann, "GET", "/v1/flows", ""), 200)
	r.fake.Advance(time.Second)
	r.want(r.page(ann, "GET", "/v1/flows", ""), 401, "the session has ended")

	// Another sign-in in the same browser ends the session before it.
	ann = r.signIn(secretOf("ann"))
	again := r.signIn(secretOf("ann"), "Cookie", ann, "Sec-Fetch-Site", "same-origin")
	r.want(r.page(ann, "GET", "/v1/flows", ""), 401)
	r.want(r.page(again, "GET", "/v1/flows", ""), 200)

	// A token that is revoked ends its sessions at the next request.
	if err := os.WriteFile(r.o.AccessFile, []byte("bob: {token-sha256: "+strings.Repeat("ab", 32)+", roles: operate}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.want(r.page(again, "GET", "/v1/flows", ""), 401, "the session has ended")
}

// TestCookiesOfOtherOrigins sends the cookie as browsers do for pages of other origins, such as
// another port of this machine, for which browsers send a SameSite cookie, too.
func TestCookiesOfOtherOrigins(t *testing.T) {
	h := people(t, Options{}, map[string]string{"ann": "roles: operate"})
	secret := secretOf("ann")
	got := h.do("POST", "/v1/inspect/signin", `{"token":"`+secret+`"}`)
	h.want(got, 200, `"name":"ann"`)
	set := got.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie is %q, want %s in it", set, want)
		}
	}
	if strings.Contains(set, "Secure") || strings.Contains(set, secret) {
		t.Errorf("the cookie is %q", set)
	}
	// Behind a proxy with TLS, browsers take it from this host alone.
	if set := h.do("POST", "/v1/inspect/signin", `{"token":"`+secret+`"}`, "X-Forwarded-Proto", "https").header.Get("Set-Cookie"); !strings.Contains(set, "; Secure") || !strings.HasPrefix(set, "__Host-") {
		t.Errorf("behind TLS the cookie is %q", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	own := "http://" + h.Addr()
	for _, x := range []struct {
		method string
		header []string
		status int
	}{
		{"GET", nil, 200},
		{"GET", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"GET", []string{"Sec-Fetch-Site", "none"}, 200}, // typed into the address bar
		{"GET", []string{"Sec-Fetch-Site", "same-site"}, 401},
		{"GET", []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"GET", []string{"Origin", "http://127.0.0.1:3000"}, 401},
		{"POST", []string{"Sec-Fetch-Site", "same-origin"}, 202},
		{"POST", []string{"Origin", own}, 202},
		{"POST", nil, 401}, // no browser sends neither
		{"POST", []string{"Sec-Fetch-Site", "none"}, 401},
		{"POST", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:3000"}, 403},
		{"POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"POST", []string{"Origin", "null"}, 403},
	} {
		path, body := "/v1/inspect/stop?flow=f", stopByPage
		if x.method == http.MethodGet {
			path, body = "/v1/flows", ""
		}
		if got := h.do(x.method, path, body, append([]string{"Cookie", cookie}, x.header...)...); got.status != x.status {
			t.Errorf("%s %v: %d %s, want %d", x.method, x.header, got.status, got.body, x.status)
		}
	}
	// A page of another origin signs no browser in and none out.
	for _, path := range []string{"/v1/inspect/signin", "/v1/inspect/signout"} {
		h.want(h.do("POST", path, `{"token":"`+secret+`"}`, "Cookie", cookie, "Sec-Fetch-Site", "same-site"), 403, "another origin")
	}
	h.want(h.page(cookie, "POST", "/v1/inspect/release?flow=f", stopByPage), 202)
}

// TestWhoami holds that weir reports to a sender its name, its roles and its bounds.
func TestWhoami(t *testing.T) {
	t.Parallel()
	const path = "/v1/whoami"
	r := people(t, Options{}, map[string]string{"eve": "roles: observe", "ann": "roles: operate", "shop": "roles: [ingest, ask], flows: [shop-*], teams: [pay]"})
	r.want(r.as("eve", "GET", path, ""), 200, `"name":"eve","named":true,"roles":["observe"]`, `"no_orders":"eve may only look`)
	r.want(r.as("shop", "GET", path, ""), 200, `"roles":["ingest","ask"],"flows":["shop-*"],"teams":["pay"]`)
	if got := r.as("ann", "GET", path, ""); strings.Contains(got.body, "no_orders") || !strings.Contains(got.body, `"roles":["observe","operate"]`) {
		t.Errorf("an operator gets %s", got.body)
	}
	r.want(r.do("GET", path, ""), 401, "send the token")
	r.want(r.do("GET", path, "", "Authorization", "Bearer wrong"), 401, "none of this weir's")
	r.want(r.page(r.signIn(secretOf("eve")), "GET", "/v1/inspect/session", ""), 200, `"roles":["observe"]`)
}

// TestWhoamiOnLoopback holds that a client of this machine reads what it may do without a token.
func TestWhoamiOnLoopback(t *testing.T) {
	t.Parallel()
	r := begin(t, Options{})
	r.want(r.do("GET", "/v1/whoami", ""), 200, `"named":false,"roles":["ingest","ask","observe"]`, `"no_orders":"weir was started without an admin token`)
	r.want(r.do("GET", "/v1/whoami", "", "Authorization", "Bearer wrong"), 401, "none of this weir's")
}
