package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/app"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/config"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
)

// DoctorCommand is weir doctor, which checks what weir run needs before it runs.
//
// It takes the flags of weir run and reads the same settings, so it is right about another
// weir only if it is given what that one was given.
func DoctorCommand() cli.Command {
	return cli.Command{
		Name: "doctor", Short: "find configuration faults and print the fix",
		Long: `Checks what weir run would use with the same flags and environment: settings, limits,
state folder, and the files that weir writes. It reads all records of the state, in a
copy, if no weir has it open.

Asks the weir that runs at --server, at WEIR_SERVER or at the --listen address. Reports
what answers there, and what the token of --token-file may do. It compares the limits in
force there, and lists the fields that its sources do not report.

With --schema-registry it asks the registry. With --brokers it checks reachability,
topics, partitions of flows, clocks, and the groups of both stages. It also writes a
record to the topic of verdicts and reads it again. That record has no value and readers
skip it; --no-probe leaves it out. --rights prints the least rights that weir needs at
the brokers, as a table.

Prints a line for each check: ok, warn or fail, and the fix. The exit code is 3 if a
check failed.`,
		Examples: []string{"weir doctor", "weir doctor --server https://weir-1:8080 --ca-file ca.pem --token-file my.token", "weir doctor --brokers kafka-1:9092 --state /var/lib/weir", "weir doctor --config weir.yaml -o json"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			d := &doctor{flags: fs, run: NewRunFlags(fs), server: client.NewServerFlags(fs)}
			fs.BoolVar(&d.noProbe, "no-probe", false, "write nothing to the cluster")
			rights := fs.Bool("rights", false, "print the least rights that weir needs at the brokers, and check nothing")
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				d.env = env
				if *rights {
					if _, err := Settings().Load(d.flags, env.Getenv); err != nil {
						return err
					}
					return d.rights()
				}
				return d.examine(ctx)
			}
		},
	}
}

// doctor makes the checks and prints what they find.
// A check that cannot be made says so as a finding: doctor ends with an error only when it
// cannot print.
type doctor struct {
	// The flags of weir run, of which run has the values.
	flags   *pflag.FlagSet
	run     *RunFlags
	server  *client.ServerFlags // of the weir that runs
	noProbe bool

	env *cli.Env
	// nil until the first finding in a format for programs.
	lines  *cli.Lines[finding]
	failed int
	err    error // of printing
}

// finding is what one check says.
// It is one line of the output for programs; the order of the members is that of the
// output.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn or fail
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// States of checks.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

// checkBound is how long one check may take.
// Brokers that take connections and answer nothing would otherwise hold it up for ever.
const checkBound = 30 * time.Second

// ok, warn and fail say what a check has found. A check may say several things, or nothing
// where another one has said it already. Only fail changes the exit code.
func (d *doctor) ok(check, format string, args ...any) {
	d.say(finding{check, stateOK, fmt.Sprintf(format, args...), ""})
}

// warn is for what weir runs with all the same. fix says how to go on; "" when there is
// nothing to say.
func (d *doctor) warn(check, fix, format string, args ...any) {
	d.say(finding{check, stateWarn, fmt.Sprintf(format, args...), fix})
}

// fail is for what weir run would end by, or lose or misplace records by.
func (d *doctor) fail(check, fix, format string, args ...any) {
	d.failed++
	d.say(finding{check, stateFail, fmt.Sprintf(format, args...), fix})
}

// say prints a finding at once, because the next check may take its time.
//
// A text of several lines becomes one. The first error of printing is kept and ends
// nothing: the checks go on, for what they say may be half on the screen.
func (d *doctor) say(f finding) {
	f.Text = strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(f.Text), "\n", "; ")), " ")
	// Programs get a JSON object for each finding.
	if d.env.Format != cli.TableFormat {
		if d.lines == nil {
			d.lines = cli.NewLines(d.env, func(*finding) []cli.Cell { return nil })
		}
		d.err = cmp.Or(d.err, d.lines.Print(&f))
		return
	}
	paint := map[string]cli.Paint{stateOK: cli.Good, stateWarn: cli.Caution, stateFail: cli.Bad}[f.State]
	// Color takes room in the text and none on the screen, so the columns are filled by
	// hand.
	_, err := cli.Fprintf(d.env.Out, "%s%s %-10s %s\n", d.env.Painted(f.State, paint), strings.Repeat(" ", 4-len(f.State)), f.Check, f.Text)
	if err == nil && f.Fix != "" {
		_, err = cli.Fprintf(d.env.Out, "%16s%s\n", "", f.Fix)
	}
	d.err = cmp.Or(d.err, err)
}

// examine makes all checks.
//
// They are in the order in which things depend on each other: what a wrong setting breaks
// is reported after it. Brokers are asked only when settings name them.
func (d *doctor) examine(ctx context.Context) error {
	// Settings that cannot be read name no brokers; to say that none are named would be wrong.
	understood := d.settings()
	at := d.findRunning(ctx)
	d.limits(at)
	d.state()
	f := files{d}
	if dir := d.run.O.StateDir; dir != "" && !d.run.inMemory {
		f.stateRecords(dir, at)
	}
	f.written()
	at.sources(d)
	switch {
	case d.run.brokers.Given():
		d.cluster(ctx)
	case understood:
		d.ok("brokers", "none are named: weir keeps a journal of its own")
	}
	f.registry(ctx)
	if d.err != nil || d.failed == 0 {
		return d.err
	}
	// The exit code is that of a finding and not of a fault: doctor itself has worked.
	d.env.Notice("%s failed", cli.Count(int64(d.failed), "check"))
	return cli.Exit(cli.CodeFinding)
}

// adviceOf returns how to go on, where the error knows that.
func adviceOf(err error, otherwise string) string {
	if f, ok := errors.AsType[*cli.Fault](err); ok && f.Next != "" {
		return f.Next
	}
	return otherwise
}

// settings reports whether all settings could be read. That they fit each other is found by
// making the program of them, without starting it.
func (d *doctor) settings() bool {
	const check = "settings"
	list, err := Settings().Load(d.flags, d.env.Getenv)
	if err != nil {
		d.fail(check, adviceOf(err, "weir config print shows each setting and where it comes from"), "%v", err)
		return false
	}
	// The values are left out: some are names of files with secrets.
	var set []string
	for _, s := range list {
		if s.Origin != config.Default {
			set = append(set, s.Name)
		}
	}
	o, err := d.run.options()
	if err == nil {
		// New has no effects, so nothing is opened that a running weir may have open.
		_, err = app.New(o)
	}
	switch {
	case err != nil:
		d.fail(check, adviceOf(err, "weir run would say the same"), "%v", err)
	case len(set) == 0:
		d.ok(check, "all as they are by default")
	default:
		d.ok(check, "set: %s; all others as they are by default", strings.Join(set, ", "))
	}
	for _, text := range strangeVariables(d.env) {
		d.warn(check, "unset it, or mend its name", "%s", text)
	}
	return true
}

// limits reads the limits as weir run would at its start. A weir that runs may have others.
func (d *doctor) limits(at *running) {
	l, err := d.run.LimitFlags.Limits()
	if err != nil {
		d.fail("limits", adviceOf(err, "weir limits validate FILE lists all that is wrong"), "%v", err)
		if at != nil && at.limits != nil {
			at.reloaded(d)
		}
		return
	}
	at.compare(d, &l)
}

// soonExpired is how long before its end a certificate should have been exchanged.
// What exchanges certificates by itself does so earlier than that as a rule.
const soonExpired = 14 * 24 * time.Hour

// certificate looks at what the server shows.
// It looks at the file; whether a running weir shows the same one, findRunning finds out.
func (d *doctor) certificate(t *certificates.Source) {
	const check = "tls"
	file, until := d.run.O.TLS.Certificate, t.Serving().NotAfter
	switch now := d.env.Now(); {
	case now.Before(t.Serving().NotBefore):
		d.fail(check, "wait, or set the clock", "%s is good from %s on", file, t.Serving().NotBefore.Format(time.DateTime))
	case now.After(until):
		d.fail(check, "put a new one in its place; weir takes it up by itself", "%s has expired at %s", file, until.Format(time.DateTime))
	case until.Sub(now) < soonExpired:
		d.warn(check, "put a new one in its place; weir takes it up by itself", "%s expires at %s", file, until.Format(time.DateTime))
	default:
		d.ok(check, "%s is good until %s", file, until.Format(time.DateTime))
	}
}

// How much of a disk should be free. Below the floor weir writes nothing.
const (
	// The least of what state.Options.MinFree is by default.
	freeFloor = 512 << 20
	freeGood  = 4 << 30
)

// state looks whether weir can write where its state is, and for how long there is room. It
// writes an empty file and removes it; a weir that runs there is not disturbed, since the
// store is not opened.
func (d *doctor) state() {
	const check = "state"
	dir := d.run.O.StateDir
	if d.run.inMemory || dir == "" {
		d.warn(check, "give it a folder with --state DIR", "kept in memory: nothing is left when weir ends")
		return
	}
	// A folder that is not there yet is made in the first one above that is.
	there := dir
	for {
		info, err := os.Stat(there)
		if err == nil && !info.IsDir() {
			d.fail(check, "name a folder with --state DIR", "%s is no folder", there)
			return
		}
		if err == nil {
			break
		}
		up := filepath.Dir(there)
		if !errors.Is(err, os.ErrNotExist) || up == there {
			d.fail(check, "name a folder with --state DIR", "%v", err)
			return
		}
		there = up
	}
	if err := makeIn(there); err != nil {
		d.fail(check, "let the user that runs weir write there, or name another folder with --state DIR", "%v", err)
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(there, &fs); err != nil {
		d.warn(check, "", "ask for the free space of %s: %v", there, err)
		return
	}
	// What others than root may use, which is less than what is free.
	free := int64(fs.Bavail) * int64(fs.Bsize)
	text := fmt.Sprintf("%s can be written to, %s MiB are free", dir, cli.Grouped(free>>20))
	switch {
	case free < freeFloor:
		d.fail(check, fmt.Sprintf("make room: below %d MiB weir writes nothing and waits", freeFloor>>20), "%s", text)
	case free < freeGood:
		d.warn(check, fmt.Sprintf("make room: below %d MiB weir writes nothing and waits", freeFloor>>20), "%s", text)
	default:
		d.ok(check, "%s", text)
	}
}

// cluster makes the checks that need brokers, each within its bound, so that one broker that
// is slow leaves time for the other checks.
func (d *doctor) cluster(ctx context.Context) {
	// Without brokers none of the further checks can say anything.
	c, err := d.run.brokers.Reach(ctx)
	if err != nil {
		d.fail("brokers", adviceOf(err, deniedFix(err, d.brokerFix(err))), "%v", err)
		return
	}
	// The connections are those of all checks below.
	defer c.Close()
	d.ok("brokers", "%s: reached, and weir is let in", d.run.brokers.Addresses)
	for _, check := range []func(context.Context, *kafka.Cluster){d.topics, d.keys, d.probe, d.groups} {
		// Each check has the whole bound.
		limited, cancel := context.WithTimeout(ctx, checkBound)
		check(limited, c)
		cancel()
	}
}

// brokerFix says what to do about brokers that cannot be reached.
func (d *doctor) brokerFix(err error) string {
	switch {
	case errors.Is(err, kafka.ErrLogin):
		return "check --kafka-sasl, and --kafka-user and --kafka-password-file or --kafka-token-file and --kafka-token-url"
	case errors.Is(err, kafka.ErrTLS):
		return "see to --kafka-tls and --kafka-ca-file"
	}
	return "see to --brokers, to the network in between, and whether a broker runs there"
}

// topics compares the topics with what weir topics plan wants of them. What loses or misplaces
// records fails; what only costs is a warning.
func (d *doctor) topics(ctx context.Context, c *kafka.Cluster) {
	const check = "topics"
	// As weir topics plan would with the settings of this weir.
	t := &TopicFlags{BrokerFlags: d.run.brokers, judging: d.run.LimitFlags, retention: d.run.O.State.JournalTTL}
	p, err := t.plan(ctx, c)
	if err != nil {
		d.fail(check, deniedFix(err, "weir topics plan says more"), "%v", err)
		return
	}
	for _, g := range p.Gaps {
		switch {
		case g.State == topicOK:
			d.ok(check, "%s: %s, and settings as they should be", g.Topic, g.Want)
		case g.State == topicMissing:
			d.fail(check, "create it: weir topics create", "%s: there is no such topic", g.Topic)
		// With too few partitions, the output of some partitions has no place. Compaction removes
		// events of a flow, which have one key.
		case g.Setting == "partitions" || g.Setting == "cleanup.policy":
			d.fail(check, g.Fix, "%s: %s is %s, want %s", g.Topic, g.Setting, g.Is, g.Want)
		default:
			d.warn(check, g.Fix, "%s: %s is %s, want %s", g.Topic, g.Setting, g.Is, g.Want)
		}
	}
}

// A group is behind when its oldest record waits for longer than this.
// A checkpoint is due every few seconds, so some seconds are no lag.
const behind = 10 * time.Second

// groups looks at the group of each stage: flows may be in time while what cuts across them is
// behind.
func (d *doctor) groups(ctx context.Context, c *kafka.Cluster) {
	for _, stage := range stages {
		d.group(ctx, c, stage)
	}
}

// group says how far one group is, the worst that is true of it. A group of none is a warning,
// as doctor may well run before the first weir.
func (d *doctor) group(ctx context.Context, c *kafka.Cluster, stage pump.Stage) {
	check, b := "group", d.run.brokers
	name := group.NameOf(b.Group, stage)
	g, err := lagOf(ctx, c, b, stage, d.env.Now)
	if err != nil {
		if !errors.Is(err, kafka.ErrNoTopic) { // which was said already
			d.fail(check, "weir lag says more", "%s: %v", name, err)
		}
		return
	}
	var oldest float64
	owners, unowned := map[string]bool{}, 0
	for _, l := range g.partitions {
		oldest = max(oldest, l.Seconds)
		if l.Owner == "" {
			unowned++
		}
		owners[l.Owner] = true
	}
	// Partitions without an owner are counted by themselves.
	delete(owners, "")
	all, lag := len(g.partitions), cli.Count(g.records(), "record")
	switch {
	case g.state == "Dead" || g.state == "Empty":
		d.warn(check, "start one: weir run --brokers "+b.Addresses.String(), "no weir is in the group %s", name)
	// As it is for some seconds when a member comes or goes.
	case unowned > 0:
		d.warn(check, "ask again when the group has settled", "%s is %s: %d of %d partitions have no owner", name, strings.ToLower(g.state), unowned, all)
	case oldest > behind.Seconds():
		d.warn(check, "weir lag says where; more weirs share the partitions", "%s is %s and %.0f s behind", name, lag, oldest)
	default:
		d.ok(check, "%s: %d of %d partitions owned by %s, %s behind", name, all-unowned, all, cli.Count(int64(len(owners)), "weir"), lag)
	}
}
