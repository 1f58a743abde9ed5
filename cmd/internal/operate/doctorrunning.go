package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/analyzer"
)

// running is the weir that was asked, as far as it answers with the token that was given. Its flags and limits
// may differ from those that doctor was given. nil where none answers.
type running struct {
	address string
	why     []string          // it is not ready
	reads   bool              // it shows blind to the sender
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

// findRunning asks the weir of the settings or of --server, and reports what it finds at that address.
func (d *doctor) findRunning(ctx context.Context) *running {
	at := d.asked()
	if at == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	var ready struct {
		Why   *[]string         `json:"why"`
		Blind map[string]string `json:"blind"`
	}
	answer, err := at.get(ctx, "/readyz")
	// Not ready is a status of 503 with the same body.
	if err != nil || json.Unmarshal(answer.body, &ready) != nil || ready.Why == nil {
		at.unanswered(d, answer, err)
		return nil
	}
	w := &running{address: at.address, why: *ready.Why, blind: ready.Blind}
	w.state(d)
	w.reads = at.access(ctx, d)
	var l runningLimits
	if answer, err = at.get(ctx, "/v1/limits"); err == nil && json.Unmarshal(answer.body, &l) == nil && l.Version != "" {
		w.limits = &l
	}
	return w
}

// state says that it runs, and what the other lines are about.
func (w *running) state(d *doctor) {
	const check = "running"
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
		d.ok(check, "by the settings given here: profile %s, version %s; the weir at %s shows its own to a token alone: give --token-file", l.Profile, l.Version, w.address)
		return
	case w.limits.Version == l.Version:
		d.ok(check, "profile %s, version %s, in force at %s, too", l.Profile, l.Version, w.address)
	default:
		d.warn(check, "to check that one, give weir doctor the flags and settings of its weir run", "by the settings given here: profile %s, version %s; in force at %s: profile %s, version %s, %s",
			l.Profile, l.Version, w.address, w.limits.Profile, w.limits.Version, w.limits.source())
	}
	w.reloaded(d)
}

// reloaded says whether the limits in force are those of its file.
func (w *running) reloaded(d *doctor) {
	const check = "limits"
	if !w.limits.Reload.OK {
		d.warn(check, "weir limits validate FILE lists all that is wrong", "the weir at %s did not take up its changed limits, and keeps version %s: %s", w.address, w.limits.Version, cmp.Or(w.limits.Reload.Error, "its log says why"))
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
	case !w.reads:
		d.ok(check, "the weir at %s shows what its sources do not report to the role observe alone: give --token-file", w.address)
	default:
		d.ok(check, "no source of the weir at %s is known to lack what rules need", w.address)
	}
}
