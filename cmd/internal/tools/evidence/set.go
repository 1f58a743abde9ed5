package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/registry"
)

// kind says which runs of a labelled set were loops, and which were honest. A run that
// is neither is left out.
// The functions are asked once for each run, with its labels.
type kind struct {
	name string
	// One prefix may stand for several kinds, whose runs of says apart.
	prefix string // of the files
	of     func(labels) bool
	loop   func(labels) bool
	honest func(labels) bool
	// live sets have events as an adapter reports them: sizes of results, statuses and times.
	live bool
	// A failed run is a loop only if one call has brought one result so often; 0 for any.
	repeats int
}

// labels are what a published set says of one run. Their names differ from set to set.
type labels map[string]any

// is reports whether a label is true; one that is missing, or no boolean, is not.
func (l labels) is(field string) bool { v, _ := l[field].(bool); return v }

// kinds are the published sets that are known.
var kinds = []kind{
	{name: "InterCode", prefix: "intercode", of: all, loop: is("turns_out"), honest: is("honest")},
	{name: "InterCode", prefix: "intercode_live", of: all, loop: is("loop"), honest: is("good"), live: true},
	{name: "AG2, two agents", prefix: "masft_ag2", of: func(l labels) bool { return l["topology"] == "pair" }, loop: capped, honest: endedWell},
	{name: "AG2, group chat", prefix: "masft_ag2", of: func(l labels) bool { return l["topology"] == "group_chat" }, loop: capped, honest: endedWell},
	{name: "SWE-agent", prefix: "sweagent", of: all, loop: is("exit_cost"), honest: is("submitted")},
	{name: "SWE-agent", prefix: "sweagent_live", of: all, loop: is("loop"), honest: is("good"), live: true},
	{name: "shell agent", prefix: "shell_agent", of: all, loop: is("loop"), honest: is("good"), live: true},
	{name: "coding agent", prefix: "cc_bench", of: all, loop: func(l labels) bool { return l.is("failed") && l["model"] == "other" }, honest: is("solved"), live: true, repeats: 6},
	{name: "Who&When", prefix: "whowhen_hc", of: all, loop: is("loop_2plus"), honest: func(l labels) bool { return !l.is("loop_2plus") }},
	{name: "ChatDev", prefix: "chatdev", of: all, loop: none, honest: all},
	{name: "tau-bench", prefix: "tau_", of: all, loop: none, honest: is("success")},
}

// all and none are for sets without a label of that kind; capped and endedWell for those of
// which the cap that ended a run is known. A run that ended before its cap and was wrong is
// neither loop nor honest.
func is(field string) func(labels) bool {
	return func(l labels) bool { return l.is(field) }
}
func all(labels) bool         { return true }
func none(labels) bool        { return false }
func capped(l labels) bool    { return l.is("ran_to_cap") }
func endedWell(l labels) bool { return !l.is("ran_to_cap") && l.is("correct") }

// set is one set of runs, and what was found in it.
//
// Runs are filled by measure, from several goroutines under its lock, and sorted by name
// after that.
type set struct {
	name  string
	files []string
	kind  *kind // nil for sessions: each file is one honest run
	// By the id of the flow, as the adapter of the set makes it; only those runs that the kind
	// is about.
	label map[string]labels
	// live is set where events have the sizes of results, statuses and times.
	live bool
	// stripped live events are measured as neutral traces, without all of that.
	stripped bool
	// calibrated sets are measured beside a step limit and a budget of tokens, too.
	calibrated bool
	// "", even or odd.
	half   string
	runs   []*outcome
	shares []backtest.Saving // by rules and their rivals, as far as there are honest runs enough
	unseen []backtest.Unseen // the same of runs that were not calibrated on
}

// outcome is what a replay said of one run.
//
// A run of a session may have several flows; all that is said of any of them is said of the
// run.
type outcome struct {
	name   string
	loop   bool
	calls  int64 // of agents and tools
	atStop int64 // calls made when the first stop was given
	warned bool
	stop   bool
	rules  map[string]*said
	most   [analyzer.RuleCount]int64 // that each row measured
}

// said is what one rule did to a run.
type said struct {
	warned, stop bool
	observed     float64
	at           int64 // calls made when it spoke loudest first
}

// find lists the sets below a folder.
//
// A labelled file of which no kind knows what its labels mean is an error: a guess would
// become a figure. One file may be several sets, as its runs are of several kinds.
// A folder with labelled files is not looked through for sessions.
func find(folder string) (sets []*set, err error) {
	events, err := filepath.Glob(filepath.Join(folder, "*.events.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	for _, file := range events {
		of := kindsOf(filepath.Base(file))
		for _, k := range of {
			s := &set{name: k.name, kind: k, files: []string{file}, live: k.live}
			if s.label, err = readLabels(strings.Replace(file, ".events.", ".labels.", 1), k.of); err != nil {
				return nil, err
			}
			sets = append(sets, s)
		}
		if len(of) == 0 {
			return nil, fmt.Errorf("%s: which of its runs are loops is not known: add the set to kinds", file)
		}
	}
	if len(events) > 0 {
		return sets, nil
	}
	// Sessions of other programs lie in folders of folders, so all below counts.
	sessions := &set{name: filepath.Base(folder), live: true}
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".jsonl") {
			sessions.files = append(sessions.files, path)
		}
		return err
	})
	if len(sessions.files) > 0 {
		sets = append(sets, sessions)
	}
	return sets, err
}

// kindsOf returns the kinds of which a file holds runs: those with the longest prefix that it has.
func kindsOf(file string) (found []*kind) {
	for i := range kinds {
		k := &kinds[i]
		switch {
		case !strings.HasPrefix(file, k.prefix):
		case len(found) == 0 || len(k.prefix) == len(found[0].prefix):
			found = append(found, k)
		case len(k.prefix) > len(found[0].prefix):
			found = []*kind{k}
		}
	}
	return found
}

// withNeutral adds a neutral set for each live one of which none is there: the same runs without what only
// live events have. Of each name it marks the set that is calibrated: the live one, if there is one.
func withNeutral(sets []*set) (out []*set) {
	forms := map[string]map[bool]bool{}
	for _, s := range sets {
		if forms[s.name] == nil {
			forms[s.name] = map[bool]bool{}
		}
		forms[s.name][s.live] = true
	}
	for _, s := range sets {
		s.calibrated = s.kind != nil && s.live == forms[s.name][true]
		out = append(out, s)
		if s.kind != nil && s.live && !forms[s.name][false] {
			neutral := *s
			neutral.live, neutral.stripped, neutral.calibrated = false, true, false
			out = append(out, &neutral)
		}
	}
	return out
}

// readLabels reads the labels of the runs that of wants, by the ids of their flows.
// It is an error when a set has no file of labels.
func readLabels(file string, of func(labels) bool) (map[string]labels, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	in, err := adapter.NewReader(f)
	if err != nil {
		return nil, err
	}
	// A line that cannot be read leaves its run without labels, which is then left out.
	in.Use(adapter.Lines, func(adapter.Fault) {})
	out := map[string]labels{}
	for {
		record, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var l struct {
			Dataset string `json:"dataset"`
			TraceID string `json:"trace_id"`
			Labels  labels `json:"labels"`
		}
		if err := json.Unmarshal(record.Bytes, &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, record.Line, err)
		}
		if of(l.Labels) {
			name := l.TraceID
			if l.Dataset != "" {
				name = l.Dataset + "/" + name
			}
			out[name] = l.Labels
		}
	}
}

// measure replays all files of the set.
//
// A file is one job, and each has its own fold, so files share nothing.
func (s *set) measure(l analyzer.Limits) error {
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed error
	// As many at one time as there are processors: a file is held in memory while it is
	// folded.
	next := make(chan string)
	for range runtime.NumCPU() {
		group.Go(func() {
			for file := range next {
				runs, err := s.replay(l, file)
				mu.Lock()
				s.runs = append(s.runs, runs...)
				failed = cmp.Or(failed, err)
				mu.Unlock()
			}
		})
	}
	for _, file := range s.files {
		next <- file
	}
	close(next)
	// After it no goroutine touches runs or failed any more.
	group.Wait()
	// The order of completion must not matter: the tables have to be the same each time.
	slices.SortFunc(s.runs, func(a, b *outcome) int { return cmp.Compare(a.name, b.name) })
	return failed
}

// inHalf reports whether a run belongs to the requested half.
func (s *set) inHalf(name string) bool {
	return s.half == "" || isOdd(name) == (s.half == "odd")
}

// isOdd reports in which half a run is. It is by a hash of the name, so a run stays in its
// half whatever else is added to the set.
func isOdd(name string) bool { return xxhash.Sum64String(name)>>7&1 == 1 }

// replay folds one file. In a labelled set every flow of it is a run, else the file is.
func (s *set) replay(l analyzer.Limits, file string) ([]*outcome, error) {
	base := filepath.Base(file)
	if s.kind == nil && !s.inHalf(base) {
		return nil, nil
	}
	rec := recording{strip: s.stripped, repeats: s.kind != nil && s.kind.repeats > 0}
	evs, err := rec.read(file)
	if err != nil || len(evs) == 0 {
		return nil, err // an unknown format is passed over
	}
	// It folds in this process, without a log or a clock: times are those of the events.
	r, err := pump.NewReplay(context.Background(), pump.Options{Limits: l})
	if err != nil {
		return nil, err
	}
	trial, err := backtest.NewTrial(context.Background(), l)
	if err != nil {
		return nil, err
	}
	// Only labelled sets are calibrated.
	trial.Steps = s.calibrated
	runs := map[string]*outcome{}
	var ev events.Event
	for i := range evs {
		// The events were encoded by read, so this fails by a fault of ours alone.
		if err := events.Decode(evs[i].json, &ev); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := base
		if s.kind != nil {
			name = ev.FlowKey()
			// Runs that are not wanted are not folded either: nothing of one flow bears on
			// another here.
			if s.label[name] == nil || !s.inHalf(name) {
				continue
			}
		}
		o := runs[name]
		if o == nil {
			o = &outcome{name: strings.Clone(name), rules: map[string]*said{}}
			runs[o.name] = o
		}
		// Two folds of the same events: the trial for what rows measured, the other for each
		// verdict, of which a trial keeps the first only.
		trial.Fold(&ev)
		given := r.Fold(&ev, int64(i))
		// Results, returns and thoughts are no calls.
		if ev.Refusable() {
			o.calls++
		}
		for j := range given {
			o.note(&given[j])
		}
	}
	s.noteMost(trial, runs, base)
	return s.labelled(trial, runs, rec.results), nil
}

// noteMost notes the greatest value of each row in each run. Of a session with several flows that of any of them counts.
func (s *set) noteMost(trial *backtest.Trial, runs map[string]*outcome, base string) {
	for _, f := range trial.Flows() {
		name := base
		if s.kind != nil {
			name = f.ID
		}
		if o := runs[name]; o != nil {
			for row := range o.most {
				o.most[row] = max(o.most[row], f.Most(analyzer.RuleID(row)))
			}
		}
	}
}

// labelled returns the runs of which the right result is known, and what calibrated limits do to them.
func (s *set) labelled(trial *backtest.Trial, runs map[string]*outcome, seen map[string]*results) (out []*outcome) {
	for name, o := range runs {
		if s.kind != nil {
			o.loop = s.kind.loop(s.label[name]) && (s.kind.repeats == 0 || seen[name] != nil && seen[name].most >= s.kind.repeats)
			// Neither: the right result for it is unknown.
			if !o.loop && !s.kind.honest(s.label[name]) {
				continue
			}
		}
		out = append(out, o)
	}
	if s.calibrated {
		good := func(f *backtest.Flow) bool {
			o := runs[f.ID]
			return o != nil && !o.loop && s.kind.honest(s.label[f.ID])
		}
		failed := func(f *backtest.Flow) bool { o := runs[f.ID]; return o != nil && o.loop }
		// A labelled set is one file, so this is called once for each set.
		s.shares = trial.Savings(shares, good, failed)
		s.unseen = trial.Unseen(shares, splits, good, failed)
	}
	return out
}

// shares are the shares of honest runs to which limits are calibrated.
var shares = []float64{0.005, 0.01, 0.05}

// splits is how often runs are halved to see what calibrated limits do to others.
const splits = 20

// note takes down a verdict about a flow.
//
// What is only watched, and what is about agents over all flows, counts for nothing here.
// An armed order counts as a warning.
func (o *outcome) note(v *events.Verdict) {
	if v.CorrelationID == "" || v.Mode != events.ModeEnforce {
		return
	}
	warns := v.Action == events.Warn
	// An order that is armed refuses the next call, which a run that ends here never makes.
	stops := v.Stops() && v.Effective == "now"
	if !warns && !v.Stops() {
		return
	}
	o.warned = true
	r := o.rules[v.RuleID]
	if r == nil {
		r = &said{}
		o.rules[strings.Clone(v.RuleID)] = r
	}
	// The first stop, or as long as there is none the first warning.
	if !r.warned || stops && !r.stop {
		if r.at = o.calls; v.Observed != nil {
			r.observed = *v.Observed
		}
	}
	r.warned = true
	if stops {
		r.stop = true
		if !o.stop {
			o.stop, o.atStop = true, o.calls
		}
	}
}

// timed is an event as JSON, which owns its bytes; those of the adapter are good for one call.
// Its time is there for sorting alone.
type timed struct {
	at   events.Stamp
	json []byte
}

// recording reads one file.
type recording struct {
	strip   bool // leave out what neutral traces lack
	repeats bool // count results before that, by flow
	results map[string]*results
}

// read decodes a file into events in the order of time.
//
// A file of an unknown format has no events and no error, since folders of sessions hold
// other things as well. Events of weir's own format stay in the order of the file, unless they are stripped.
func (r *recording) read(file string) (out []timed, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	in, err := adapter.NewReader(f)
	if err != nil {
		return nil, err
	}
	format, err := registry.Detect(in.Head())
	if err != nil {
		return nil, nil //nolint:nilerr // not a recording
	}
	var flows neutral
	err = adapter.Read(in, format, format.New(adapter.Options{}), func(ev *events.Event) {
		if r.repeats {
			r.count(ev)
		}
		if r.strip {
			flows.strip(ev)
		}
		out = append(out, timed{ev.Time, ev.AppendJSON(nil)})
	}, func(adapter.Fault) {})
	if r.strip || format.Name != canonical.Format().Name {
		// Adapters that hold events back return some events after later ones; live they would
		// return them in time.
		slices.SortStableFunc(out, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	}
	return out, err
}

// count counts the results of the flow of the event.
func (r *recording) count(ev *events.Event) {
	if r.results == nil {
		r.results = map[string]*results{}
	}
	of := r.results[ev.FlowKey()]
	if of == nil {
		of = &results{}
		r.results[strings.Clone(ev.FlowKey())] = of
	}
	of.add(ev)
}
