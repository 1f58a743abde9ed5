package app

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/group"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/state"
)

// Options are what an app runs with. The zero value is good: it keeps
// everything in memory and listens on DefaultListen.
type Options struct {
	Listen string   // address of the HTTP server; default DefaultListen
	Hosts  []string // names, beside localhost and addresses, that a Host header may have

	// StateDir is where journal, verdict log and state are kept; "" keeps them in
	// memory, for demonstrations and tests.
	StateDir string
	// State is how they are kept. Its Logger defaults to Logger. RecordTTL and JournalTTL default to DefaultRetention;
	// negative means for ever.
	State state.Options

	// Kafka makes the program a member of a group on Kafka; nil keeps a journal.
	Kafka *group.Options

	// LimitsFile is read at the start and watched; "" takes Limits.
	LimitsFile string
	// Limits are used without a LimitsFile; one without Version stands for the
	// default profile.
	Limits analyzer.Limits

	// AdminTokenFile, IntakeTokenFile and AccessFile set the access rules, see access.Options.
	// Without an admin token no orders are accepted. With an intake token, or on an address that
	// other machines reach, everything but the health needs a token.
	AdminTokenFile, IntakeTokenFile, AccessFile string
	// MemberKeyFile holds the keys by which members of a group know each other; "" derives
	// them from the tokens, see access.Keeper.MemberKeys.
	MemberKeyFile string
	// TLS names the certificates that all listeners show; without them they speak in the clear.
	TLS certificates.Files
	// AuditFile is where orders of persons are recorded; "" is audit.jsonl beside StateDir's
	// contents, and nowhere where everything is kept in memory.
	AuditFile string
	// OrdersFile keeps the orders by hand a second time, outside of the state; "" does not. The
	// members of a group have them in a topic instead.
	OrdersFile string
	// SwitchFile has the settings of orders by hand, see package switchfile; "" has none.
	SwitchFile string

	// TrustUsers are the sources that are believed when they say that a user has spoken, see
	// gate.ParseTrust; default gate.DefaultTrust.
	TrustUsers string

	Follow      []intake.Follow // files and pipes to read events from
	VerdictFile string          // verdicts are appended to it as well
	WebhookURL  string          // verdicts are sent to it as well
	// WebhookFormat is how they are sent, see webhook.ParseFormat.
	WebhookFormat string
	// WebhookSecretFile holds the key that deliveries are signed with.
	WebhookSecretFile string
	// OTLPLogs is a URL that verdicts are sent to as log events of OpenTelemetry as well.
	OTLPLogs string
	// OTLPHeadersFile holds headers that are sent along, see otlp.ReadHeader.
	OTLPHeadersFile string
	// OrderKeysFile holds the keys that orders are signed with, see sign.Parse: the first
	// one signs. It is read again by Reload. "" signs nothing.
	OrderKeysFile string

	Tick            time.Duration // silence in the journal after which a tick is appended; default 5 s
	LimitsPoll      time.Duration // how often files that people edit are looked at; default 1 s
	CheckpointEvery time.Duration // see pump.Options
	Memory          int64         // see pump.Options
	IntakeMemory    int64         // bytes of bodies that are taken in at one time; default DefaultIntakeMemory
	AnswerTimeout   time.Duration // how long a check waits for the fold; default 2 s
	Heartbeat       time.Duration // of streams that have nothing to say; default 2 s
	Stuck           time.Duration // a pump that has not turned for so long is not healthy; default 30 s

	// Authz answers gateways that ask by HTTP, at check.AuthzPath.
	Authz bool
	// AuthzGRPC is the address on which Envoy's external authorization is answered by
	// gRPC; "" has none.
	AuthzGRPC string
	// Metrics is the address of the listener for metrics and profiles; "" has none. It
	// is no reason not to run when the address cannot be listened on.
	Metrics          string
	NativeHistograms bool // see prom.Options
	// PricesFile prices tokens of which events do not say what they cost, see costs.ReadPrices;
	// "" leaves their price unknown.
	PricesFile string
	// SelfTest is how often weir makes a loop of its own and looks whether it is
	// stopped; 0 never.
	SelfTest time.Duration

	Connections int // open at most; default 1024
	Requests    int // for each, checksPerRequest checks may wait at one time; default 64
	Streams     int // followers of the verdicts at most; default 256

	Clock  clock.Clock  // default: the system's
	Logger *slog.Logger // default: drops everything
}

// Defaults of Options.
const (
	DefaultListen    = "127.0.0.1:8080"
	DefaultRetention = 7 * 24 * time.Hour
	// 9464 is the port that exporters of OpenTelemetry use for Prometheus.
	DefaultMetrics  = "127.0.0.1:9464" // of weir run, which also tests itself
	DefaultSelfTest = time.Minute
	minToken        = 32

	DefaultIntakeMemory = 128 << 20
)

// withDefaults fills in what is not given, and refuses what no default can mend. o is a
// copy.
func (o Options) withDefaults() (Options, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	// Records and the journal that they are made of expire together: a flow whose
	// record is gone is then one that the journal does not know either.
	for _, ttl := range []*time.Duration{&o.State.RecordTTL, &o.State.JournalTTL} {
		switch {
		case *ttl == 0:
			*ttl = DefaultRetention
		// The store takes 0 for ever.
		case *ttl < 0:
			*ttl = 0
		}
	}
	if o.LimitsFile == "" && o.Limits.Version == "" {
		o.Limits = limitfile.Default()
	}
	for _, d := range []struct {
		value *time.Duration
		byDef time.Duration
	}{{&o.Tick, 5 * time.Second}, {&o.LimitsPoll, time.Second}, {&o.CheckpointEvery, pump.DefaultCheckpointEvery},
		{&o.AnswerTimeout, 2 * time.Second}, {&o.Heartbeat, 2 * time.Second}, {&o.Stuck, 30 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.byDef
		}
		if *d.value < 0 {
			return o, errors.New("intervals must not be negative")
		}
	}
	// 0 is the default and never means no connection at all.
	for _, n := range []struct {
		value *int
		byDef int
	}{{&o.Connections, 1024}, {&o.Requests, 64}, {&o.Streams, 256}} {
		if *n.value <= 0 {
			*n.value = n.byDef
		}
	}
	if o.AuditFile == "" && o.StateDir != "" {
		o.AuditFile = filepath.Join(o.StateDir, "audit.jsonl")
	}
	o.IntakeMemory = cmp.Or(max(o.IntakeMemory, 0), DefaultIntakeMemory)
	o.TrustUsers = cmp.Or(o.TrustUsers, gate.DefaultTrust)
	if o.SelfTest != 0 && o.SelfTest < selftest.Least {
		return o, fmt.Errorf("a self-test every %v is too often; give it at least %v, or 0 for none", o.SelfTest, selftest.Least)
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.State.Logger == nil {
		o.State.Logger = o.Logger
	}
	return o, o.resolveFollowed()
}

// resolveFollowed makes the paths of followed files absolute: their places in the store are kept
// by them, and may not depend on where weir was started.
// A file that is named twice would be read by two with one place.
func (o *Options) resolveFollowed() error {
	seen := make(map[string]bool)
	for i := range o.Follow {
		f := &o.Follow[i]
		if f.Path == "" {
			return errors.New("follow: a path is empty")
		}
		if f.Path != "-" {
			path, err := filepath.Abs(f.Path)
			if err != nil {
				return fmt.Errorf("follow %s: %w", f.Path, err)
			}
			f.Path = path
		}
		if seen[f.Path] {
			return fmt.Errorf("follow: %s is named twice", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}

// readSecret reads a file that holds one secret.
// Space and newlines at its end are no part of it: editors put them there. "" has none.
func readSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	if len(b) < minToken {
		return nil, fmt.Errorf("%s holds %d characters, want at least %d; make one with: head -c 32 /dev/urandom | base64 > %s", path, len(b), minToken, path)
	}
	return b, nil
}
