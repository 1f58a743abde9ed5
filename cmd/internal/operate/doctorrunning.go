package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"weir/analyzer"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/client"
)

// running is the weir that runs at the address of the settings, as far as it answers without a token. Its flags
// and limits may differ from those that doctor was given. nil where none runs.
type running struct {
	address string
	why     []string          // it is not ready
	blind   map[string]string // by source
	limits  *runningLimits    // nil where it does not show them
}

// runningLimits are the limits that are in force there.
type runningLimits struct {
	Version string `json:"version"`
	Profile string `json:"profile"`
	File    string `json:"file"`
	Pending string `json:"pending"`
	Reload  struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	} `json:"last_reload"`
}

// findRunning asks the address of the settings. Another program with that port is no weir.
func (d *doctor) findRunning(ctx context.Context) *running {
	// Port 0 is any that is free, so the port of a running weir is unknown.
	_, port, err := net.SplitHostPort(d.run.O.Listen)
	if err != nil || port == "0" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	// No token is sent.
	c := &client.Client{Base: client.URLOf(d.run.O.Listen), HTTP: &http.Client{}}
	// A weir that speaks TLS is asked by the certificate of the settings, so that another one
	// in its place comes out.
	if t, err := certificates.Open(d.run.O.TLS); err == nil && t != nil {
		c.Base = "https" + strings.TrimPrefix(c.Base, "http")
		c.HTTP.Transport = t.ToItself()
		d.certificate(t)
	}
	var ready struct {
		Why   *[]string         `json:"why"`
		Blind map[string]string `json:"blind"`
	}
	body, err := answerOf(ctx, c, "/readyz")
	if errors.Is(err, certificates.ErrOther) {
		d.warn("tls", "send it SIGHUP, and look in its log for why it has not taken the file up", "the weir at %s shows another certificate than %s", d.run.O.Listen, d.run.O.TLS.Certificate)
		return nil
	}
	if json.Unmarshal(body, &ready) != nil || ready.Why == nil {
		return nil
	}
	w := &running{address: d.run.O.Listen, why: *ready.Why, blind: ready.Blind}
	var l runningLimits
	if body, _ = answerOf(ctx, c, "/v1/limits"); json.Unmarshal(body, &l) == nil && l.Version != "" {
		w.limits = &l
	}
	return w
}

// answerOf returns the body of an answer, also of one that is an error.
func answerOf(ctx context.Context, c *client.Client, path string) ([]byte, error) {
	resp, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		return status.Body, nil // not ready, which says as much of sources
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(io.LimitReader(resp.Body, 1<<22)) // what is cut off is no JSON
}

// state says that it runs, and what the other lines are about.
func (w *running) state(d *doctor) {
	const check = "running"
	if w == nil {
		return
	}
	if len(w.why) > 0 {
		d.warn(check, "its log says more", "the weir at %s is not ready: %s", w.address, strings.Join(w.why, "; "))
	}
	d.ok(check, "a weir runs at %s; the other lines are about weir run with the settings given here, except where they name it", w.address)
}

// compare says which limits are those of the flags, and which are in force.
func (w *running) compare(d *doctor, l *analyzer.Limits) {
	const check = "limits"
	switch {
	case w == nil:
		d.ok(check, "profile %s, version %s", l.Profile, l.Version)
		return
	case w.limits == nil:
		d.ok(check, "by the settings given here: profile %s, version %s; the weir at %s shows its own to a token alone", l.Profile, l.Version, w.address)
		return
	case w.limits.Version == l.Version:
		d.ok(check, "profile %s, version %s, in force at %s, too", l.Profile, l.Version, w.address)
	default:
		d.warn(check, "to check that one, give weir doctor the flags and settings of its weir run", "by the settings given here: profile %s, version %s; in force at %s: profile %s, version %s, %s",
			l.Profile, l.Version, w.address, w.limits.Profile, w.limits.Version, w.limits.source())
	}
	if !w.limits.Reload.OK {
		d.warn(check, "weir limits validate FILE lists all that is wrong", "the weir at %s did not take up its changed limits: %s", w.address, w.limits.Reload.Error)
	}
	if w.limits.Pending != "" {
		d.warn(check, "look again: they are in force when the log has come to them", "the weir at %s takes up version %s", w.address, w.limits.Pending)
	}
}

// source is where they come from.
func (l *runningLimits) source() string {
	if l.File == "" {
		return "without a limits file"
	}
	return "from " + l.File
}

// sources says what the sources of the running weir do not report.
func (w *running) sources(d *doctor) {
	const check = "sources"
	if w == nil {
		return
	}
	for _, source := range slices.Sorted(maps.Keys(w.blind)) {
		d.warn(check, "weir events describe says of each format what to set so that it tells more", "%s: %s", cmp.Or(source, "events without a source"), w.blind[source])
	}
	switch {
	case len(w.blind) > 0:
	case w.limits == nil: // it hides both alike
		d.ok(check, "the weir at %s shows to a token alone what its sources do not report: GET /readyz", w.address)
	default:
		d.ok(check, "no source of the weir at %s is known to lack what rules need", w.address)
	}
}
