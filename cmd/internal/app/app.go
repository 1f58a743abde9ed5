package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/analyzer"
	"weir/analyzer/prices"
	"weir/cmd/internal/access"
	"weir/cmd/internal/api"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/filewatch"
	"weir/cmd/internal/forwarder"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/misnamed"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/sink/jsonl"
	"weir/sink/otlp"
	"weir/sink/prom"
	"weir/sink/recipient"
	"weir/sink/webhook"
	"weir/state"
)

// App is weir as it runs, embedded or as a member of a group on Kafka. Make it with New, then Start, then Stop; when
// Done is closed in between, something failed that cannot be gone on from, and Err
// says what.
// Its parts know each other only by small interfaces that they declare themselves; this is
// where each is given what it needs. What is nil before Start is opened by that.
type App struct {
	*failure

	o      Options
	clock  clock.Clock
	logger *slog.Logger
	trust  gate.Trust // who is believed that a user has spoken
	limits *limits.Source
	hook   *webhook.Hook
	otlp   *otlp.Exporter
	keys   orderKeys
	access *access.Keeper
	peer   *peer.Peer
	tls    *certificates.Source // nil: in the clear
	audit  *access.Audit        // nil: orders are not recorded
	api    *api.Server

	store *state.Store
	// openBackend is newBackend, except in tests.
	openBackend func() (backend, error)
	backend     backend
	verdicts    *state.Log // that streams and outlets read
	counts      pump.Counts
	misnamed    misnamed.Lookout // looks at what comes in
	budget      *budget.Budget   // of what is taken in at one time
	deadLetters *intake.DeadLetters
	selfTest    *selftest.Prober // nil when weir does not test itself
	answers     *ask.Answers
	orders      *ask.GlobalOrders
	hand        switchboard // the orders of persons about scopes
	degraded    *ask.Degraded
	checks      *ask.Service // of the three above and the backend
	members     members      // nil: this process is alone
	file        *jsonl.File
	reading     *intake.Intake // files, and what programs send
	serving     bool

	// What is ended in turn by Stop.
	// intake is all that brings events or appends to the log; leaving is what passes
	// verdicts on and ends last, so that the last verdicts still go out.
	intake, leaving *phase.Phase
	closed          sync.Once
}

// New checks the options and reads the files that they name. It has no effects.
// Whatever can be found wrong without a port or the state is found here, before anything is
// begun.
func New(o Options) (*App, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &App{o: o, clock: o.Clock, logger: o.Logger, failure: &failure{logger: o.Logger, done: make(chan struct{})}, budget: budget.New(o.IntakeMemory)}
	a.misnamed.Report = a.reportMisnamed
	a.openBackend = a.newBackend
	// Without a prober everything that asks it finds nil, which its methods know.
	if o.SelfTest > 0 {
		a.selfTest = &selftest.Prober{Every: o.SelfTest, Clock: a.clock, Logger: a.logger}
	}
	var table prices.Table
	if o.PricesFile != "" {
		if table, err = costs.ReadPrices(o.PricesFile); err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
	}
	if a.trust, err = gate.ParseTrust(o.TrustUsers); err != nil {
		return nil, fmt.Errorf("trust users: %w", err)
	}
	if a.api, err = a.newServer(); err != nil {
		return nil, err
	}
	if a.limits, err = limits.New(limits.Options{File: o.LimitsFile, Limits: o.Limits, Prices: table, Poll: o.LimitsPoll, Clock: o.Clock, Logger: o.Logger}); err != nil {
		return nil, err
	}
	if a.hand.settings, err = switchfile.Read(o.SwitchFile); err != nil {
		return nil, fmt.Errorf("settings of the switch: %w", err)
	}
	if err := a.hand.checkApprovals(a.access); err != nil {
		return nil, fmt.Errorf("settings of the switch: approvals: %w", err)
	}
	if len(a.hand.settings.TwoPersons) > 0 && !a.access.TwoMayStop() {
		return nil, fmt.Errorf("settings of the switch: %w", errTwoPersons)
	}
	a.keys.path = o.OrderKeysFile
	if err := a.keys.load(); err != nil {
		return nil, err
	}
	if o.WebhookURL != "" {
		secret, err := readSecret(o.WebhookSecretFile)
		if err != nil {
			return nil, fmt.Errorf("secret of the webhook: %w", err)
		}
		format, err := webhook.ParseFormat(o.WebhookFormat)
		if err != nil {
			return nil, err
		}
		// Orders are signed by keys that may change, so it gets a function and not a key.
		a.hook, err = webhook.New(webhook.Options{URL: o.WebhookURL, Format: format, Secret: secret, Order: a.keys.sign, After: a.clock.After, Now: a.clock.Now, Logger: o.Logger})
		if err != nil {
			return nil, err
		}
	}
	if err := a.openOTLP(); err != nil {
		return nil, err
	}
	return a, nil
}

// openOTLP makes what sends verdicts as log events, if a URL is named.
// The headers are read once: a token in them is exchanged by a restart.
func (a *App) openOTLP() (err error) {
	if a.o.OTLPLogs == "" {
		return nil
	}
	o := otlp.Options{URL: a.o.OTLPLogs, Now: a.clock.Now, Logger: a.logger}
	if a.o.OTLPHeadersFile != "" {
		b, err := os.ReadFile(a.o.OTLPHeadersFile)
		if err != nil {
			return fmt.Errorf("headers of log events: %w", err)
		}
		if o.Header, err = otlp.ReadHeader(b); err != nil {
			return fmt.Errorf("headers of log events: %s: %w", a.o.OTLPHeadersFile, err)
		}
	}
	a.otlp, err = otlp.New(o)
	return err
}

// reportMisnamed counts an event that lacks what rules need and has it under a name that is a slip
// away, and says so once.
// It is called for each such event, by whatever goroutine takes it in.
func (a *App) reportMisnamed(ev *events.Event, near events.Nearby) {
	first := false
	a.counts.Count(func(n *prom.Counters) {
		n.Misnamed++
		first = n.Misnamed == 1
	})
	if first {
		a.logger.Warn("a name in an event is not known and is ignored; others like it are only counted", "source", ev.Source, "event", ev.ID, "name", near.Name, "meant", near.Meant)
	}
}

// newServer makes what serves requests, with what its users show.
func (a *App) newServer() (_ *api.Server, err error) {
	if a.tls, err = certificates.Open(a.o.TLS); err != nil {
		return nil, err
	}
	// Certificates come first: they identify clients only if clients are asked for
	// theirs.
	if a.access, err = access.New(access.Options{AdminTokenFile: a.o.AdminTokenFile, IntakeTokenFile: a.o.IntakeTokenFile, File: a.o.AccessFile, MemberKeyFile: a.o.MemberKeyFile, Certificates: a.tls.AsksClients()}); err != nil {
		return nil, err
	}
	a.peer = a.newPeer()
	o := api.Options{Listen: a.o.Listen, Hosts: a.o.Hosts, Trust: a.trust, Sign: a.keys.sign, LimitsFile: a.o.LimitsFile,
		Access: a.access, Peer: a.peer, TLS: a.tls, Authz: a.o.Authz, AuthzGRPC: a.o.AuthzGRPC, Metrics: a.o.Metrics, NativeHistograms: a.o.NativeHistograms,
		Connections: a.o.Connections, Requests: a.o.Requests, Streams: a.o.Streams,
		AnswerTimeout: a.o.AnswerTimeout, Heartbeat: a.o.Heartbeat, Stuck: a.o.Stuck,
		Budget: a.budget, Counts: &a.counts, Clock: a.clock, Logger: a.logger}
	if a.o.Kafka == nil { // on Kafka others write to the log, too: names are looked at where it is folded
		o.Own = a.look
	}
	if a.o.StateDir != "" {
		o.MarksFile = filepath.Join(a.o.StateDir, "review.jsonl")
	}
	return api.New(o)
}

// newPeer makes what calls other members and knows them.
func (a *App) newPeer() *peer.Peer {
	p := &peer.Peer{TLS: a.tls.AsksClients(), Now: func() events.Stamp { return a.backend.Now() },
		// A member answers by itself. Another one's redirect would send the proof elsewhere.
		Client: &http.Client{Transport: a.tls.Transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Keys: func() (keys peer.Keys) {
			keys.Keys, keys.Orders = a.access.MemberKeys()
			return keys
		}}
	if a.o.Kafka != nil {
		p.Address = a.o.Kafka.Advertise
	}
	return p
}

// Start opens the state, listens, and returns when requests are served. The context
// is for the start alone.
// After an error all that was begun is ended and closed, and the App is of no use.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.leave())
		}
	}()
	if err = a.open(); err != nil {
		return err
	}
	if err := a.api.Listen(); err != nil {
		return err
	}
	// The limits go into the log before anything is folded, and before an event can come
	// in.
	if err := a.limits.Begin(a.backend.SetLimits); err != nil {
		return err
	}
	if err := a.backend.Start(ctx); err != nil {
		return err
	}
	// Files may bring events from here on; requests are served only when all that they ask
	// is there.
	a.runAll()
	// No call is let through before the orders by hand are known.
	if err := a.hand.book.Wait(ctx); err != nil {
		return err
	}
	log, err := verdictLog(a.store)
	if err != nil {
		return err
	}
	if err := a.api.Serve(api.Parts{Program: a, Audit: a.audit, Log: a.backend, Store: a.store, Verdicts: a.verdicts, VerdictLog: log, Limits: a.limits,
		Intake: a.reading, DeadLetters: a.deadLetters, SelfTest: a.selfTest, Degraded: a.degraded, Orders: api.Orders{Book: a.hand.book, Desk: a.hand.desk, Proposals: a.hand.proposals(), Secrets: a.hand.linkSecrets}, Approvals: a.hand.approvals, Checks: a.checks, Members: a.members, Begins: a.orders.Begins, Standing: a.orders.Standing}); err != nil {
		return err
	}
	for _, d := range a.hand.settings.Drills {
		a.run(a.intake, "drill", func(ctx context.Context) error { return a.hand.drill(ctx, d) })
	}
	// Requests are served by now, so a link that is sent can be opened.
	if a.hand.approvals != nil {
		a.hand.checkLinks()
		a.run(a.intake, "approvals", a.hand.approvals.Run)
	}
	if a.members != nil {
		a.run(a.intake, "guards that moved", a.hand.settle)
	}
	a.serving = true
	a.logger.Info("weir is running", "address", a.Addr(), "page", a.api.Page(), "state", a.o.StateDir)
	return nil
}

// open opens what weir keeps and what it reads and writes, none of which does anything yet.
// What was opened is closed by leave when this fails on the way.
func (a *App) open() (err error) {
	a.api.Begin()
	// A store that cannot write any more ends the program: nothing could be acknowledged.
	a.o.State.Failed = a.Fail
	if a.store, err = state.Open(a.o.StateDir, a.o.State); err != nil {
		return err
	}
	a.verdicts, a.answers = a.store.Verdicts(0), ask.NewAnswers(a.clock, a.o.AnswerTimeout)
	a.degraded = &ask.Degraded{Limits: a.limits.Current, Answers: a.answers, Clock: a.clock, Logger: a.logger}
	a.orders = &ask.GlobalOrders{Verdicts: a.verdicts, Limits: a.limits.Current, Clock: a.clock, Logger: a.logger}
	a.checks = &ask.Service{Orders: a.orders, Degraded: a.degraded, Answers: a.answers, Timeout: a.o.AnswerTimeout}
	a.intake, a.leaving = phase.New(a.Fail), phase.New(a.Fail)
	if a.backend, err = a.openBackend(); err != nil {
		return err
	}
	// The backend was made with what takes the answers of its fold; what appends to it gets it now.
	a.degraded.Fold, a.degraded.Append, a.degraded.Now = folded{a.backend}, a.backend.Append, a.backend.Now
	a.orders.Log, a.orders.Above, a.checks.Log = a.backend, folded{a.backend}.Above, a.backend
	a.orders.Principal, a.orders.Waits = api.PrincipalOf, folded{a.backend}.Waits
	if a.o.AuditFile != "" {
		if a.audit, err = access.OpenAudit(a.o.AuditFile); err != nil {
			return err
		}
	}
	if err := a.openHand(); err != nil {
		return err
	}
	if a.o.VerdictFile != "" {
		if a.file, err = jsonl.Open(a.o.VerdictFile); err != nil {
			return err
		}
	}
	a.deadLetters = &intake.DeadLetters{Counts: &a.counts, Clock: a.clock, Logger: a.logger}
	a.reading, err = intake.Open(intake.Options{Follow: a.o.Follow, StateDir: a.o.StateDir, Log: a.backend, Store: a.store, DeadLetters: a.deadLetters, Trust: a.trust,
		Counts: &a.counts, Own: a.look, Clock: a.clock, Logger: a.logger, Limits: a.inForce, Fail: a.Fail})
	return err
}

// runAll begins what goes on beside requests until weir ends.
// An error of any of them is one that the program cannot go on from, see phase.Phase.
func (a *App) runAll() {
	a.run(a.intake, "degraded mode", a.degraded.Run)
	a.run(a.intake, "limits", a.limits.Watch)
	a.run(a.intake, "access", a.watchAccess)
	a.run(a.intake, "orders of all flows", a.orders.Run)
	a.run(a.intake, "orders by hand", a.hand.book.Run)
	a.run(a.intake, "guards of receipts", a.hand.known.Run)
	if a.selfTest != nil {
		a.selfTest.Log, a.selfTest.Verdicts, a.selfTest.Switch = folded{a.backend}, a.verdicts, selfSwitch{a}
	}
	if a.o.SelfTest > 0 {
		a.run(a.intake, "self-test", a.selfTest.Run)
	}
	a.reading.Run(a.intake)
	if a.file != nil {
		a.forward(forwarder.ToFile(a.o.VerdictFile, a.file))
	}
	if a.hook != nil {
		a.forward(forwarder.ToWebhook(a.o.WebhookURL, a.hook))
	}
	for _, c := range a.hand.callers {
		a.forward(forwarder.ToRuntime(c.Runtime.Name, c.Deliver))
	}
	if a.hand.approvals != nil {
		a.forward(forwarder.ToApprovals(a.hand.approvals.Deliver))
	}
	if a.otlp != nil {
		a.forward(forwarder.ToOTLP(a.o.OTLPLogs, a.otlp))
	}
}

// inForce returns the limits that are judged by.
// They are read only. Any goroutine may call it once there is a backend.
func (a *App) inForce() *analyzer.Limits {
	limits, _ := pump.InForce(a.backend.Pumps(pump.FlowStage), a.limits.Current)
	return limits
}

// forward starts to pass verdicts on to one receiver.
// Each has a goroutine and a cursor of its own, so one that is away holds up no other.
func (a *App) forward(f *forwarder.Forwarder) {
	f.Log, f.Cursors, f.Clock, f.Logger = a.verdicts, a.store, a.clock, a.logger
	a.run(a.leaving, f.Name, func(ctx context.Context) error {
		_, leave := a.backend.Follow("", false)
		defer leave()
		return f.Run(ctx)
	})
}

// Measure fills in what became of the verdicts that endpoints of others are sent.
// It is called for each scrape.
func (a *App) Measure(r *prom.Reading) {
	r.OrdersByHand, r.OrdersConfirmed = int64(len(a.hand.book.List(false))), a.hand.desk.Ratio()
	add := func(to string, c *recipient.Counts) {
		r.Posted = append(r.Posted, prom.Posted{To: to, Delivered: c.Delivered.Load(), Dropped: c.Dropped.Load(), Failures: c.Failures.Load()})
	}
	if a.hook != nil {
		add("webhook", a.hook.Counts())
	}
	if a.hand.approvals != nil {
		add("approvals", &a.hand.approvals.Counts)
	}
	if a.otlp != nil {
		add("otlp", a.otlp.Counts())
	}
}

// run starts a goroutine of a phase.
func (a *App) run(p *phase.Phase, what string, fn func(context.Context) error) { p.Run(what, fn) }

// watchAccess loads the access rules and the TLS certificates again whenever the files change.
// If the files are refused, everything stays as it was, and the error is logged once.
// Both are read when either has changed, since a token and a certificate may be exchanged
// together.
func (a *App) watchAccess(ctx context.Context) error {
	logged := ""
	return filewatch.Watch(ctx, a.clock, a.logger, a.o.LimitsPoll, func() []string { return append(a.access.Files(), a.tls.Paths()...) }, func() error {
		text := ""
		if err := errors.Join(a.access.Load(), a.tls.Load()); err != nil {
			text = err.Error()
		}
		if logged != text && text != "" {
			a.logger.Error("who may do what stays as it was", "error", text)
		}
		logged = text
		return nil
	})
}

// Scheme is how the address is spoken to: http, or https.
func (a *App) Scheme() string { return a.api.Scheme() }

// Addr is the address that is listened on, with the port that was chosen.
// It is known once Start has returned.
func (a *App) Addr() string { return a.api.Addr() }

// GatewayAddr is the address that gateways are answered on by gRPC; "" when they are not.
func (a *App) GatewayAddr() string { return a.api.GatewayAddr() }

// MetricsAddr is the address that metrics are served on; "" when they are not.
func (a *App) MetricsAddr() string { return a.api.MetricsAddr() }

// Ending is done when the app begins to stop.
func (a *App) Ending() context.Context { return a.intake.Ending() }

// Counts returns the counters of the pump.
func (a *App) Counts() *pump.Counts { return &a.counts }

// Reload reads the limits file, the keys of orders, the access rules and the certificates
// again, and reopens the verdict file and the audit log, as SIGHUP requires. What is refused
// stays as it was, and the error says why.
// Prices, headers and settings are read at the start alone.
func (a *App) Reload() error {
	err := errors.Join(a.limits.Reload(), a.keys.load(), a.access.Load(), a.tls.Load(), a.audit.Reopen())
	if a.file != nil {
		err = errors.Join(err, a.file.Reopen())
	}
	return err
}

// Stop ends the app in order: no more intake, the last batch folded and published, a
// checkpoint, then everything closed. When ctx ends before, it stops where it is:
// nothing that was acknowledged is lost by that, the next start only has more to do.
//
// It does nothing to an App that was not started. The caller of Start calls it
// once.
func (a *App) Stop(ctx context.Context) error {
	if !a.serving {
		return nil
	}
	// Streams and followers first, or Shutdown would wait for them.
	err := a.intake.End(ctx)
	a.api.Shutdown(ctx)
	// A disk that is full is no failed end: the log has everything.
	if perr := a.backend.Stop(ctx); errors.Is(perr, state.ErrDiskLow) {
		a.logger.Warn("stopped without a last checkpoint; the next start folds a little more again", "error", perr)
	} else {
		err = errors.Join(err, perr)
	}
	// Last, since the backend has just published its last verdicts.
	err = errors.Join(err, a.leaving.End(ctx))
	return errors.Join(err, a.closeAll())
}

// leaveTime is how long what has begun may take to end when Start fails.
const leaveTime = 10 * time.Second

// leave ends what Start has begun, before it closes what they work with.
// The intake's phases are there whenever the backend is.
func (a *App) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	var err error
	if a.backend != nil {
		err = errors.Join(a.intake.End(ctx), a.backend.Stop(ctx), a.leaving.End(ctx))
	}
	return errors.Join(err, a.closeAll())
}

// closeAll closes what Start has opened.
// The store is closed last: all others may still write to it. It may be called again.
func (a *App) closeAll() (err error) {
	a.closed.Do(func() {
		err = errors.Join(err, a.api.Close())
		if a.reading != nil {
			err = errors.Join(err, a.reading.Close())
		}
		if a.file != nil {
			err = errors.Join(err, a.file.Close())
		}
		err = errors.Join(err, a.audit.Close())
		if a.store != nil {
			err = errors.Join(err, a.store.Close())
		}
	})
	return err
}
