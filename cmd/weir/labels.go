package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/events"
	"weir/events/adapter"
)

// labelled is one line of a label file: what it says of a flow, as marks do; "" for nothing.
type labelled struct{ flow, mark string }

// labelFile is one file of labels: what a data set says of its runs. Marks are different: they
// are a person's judgements of single stops.
type labelFile struct {
	name   string
	traces []labelled
	fields []string // names of labels, of the first trace
}

// labelLine is a line of a label file as it stands there.
//
// trace_id may be a number or a text. Values of labels are kept as JSON gives them, and
// read by criteria.
type labelLine struct {
	Dataset string          `json:"dataset"`
	TraceID json.RawMessage `json:"trace_id"`
	Labels  map[string]any  `json:"labels"`
}

// isLabels reports whether the beginning of a file looks like labels of traces.
//
// Only the first value is looked at. An event of weir's own has a kind, and may have
// members of these names.
func isLabels(head []byte) bool {
	for top := range adapter.Tops(head) {
		return top.Has("trace_id", "labels") && !top.Has("kind")
	}
	return false
}

// readLabels reads a file of labels, one JSON object per line.
//
// One bad line refuses the file, with its number: a score over half of the labels would
// look like one over all.
func readLabels(in *logs.Input, by criteria) (out *labelFile, err error) {
	out = &labelFile{name: labelName(in.Name)}
	fail := func(line int, fault error) {
		if err == nil {
			err = cli.Failure("%s:%d: %w", in.Name, line, fault).Advise(`a line is {"trace_id":"FLOW","labels":{...}}, with "dataset" where flows are called DATASET/TRACE`)
		}
	}
	in.Body().Use(adapter.Lines, func(f adapter.Fault) { fail(f.Line, f.Reason) })
	for err == nil {
		record, end := in.Body().Next()
		if errors.Is(end, io.EOF) {
			return out, err
		}
		if end != nil {
			return nil, fmt.Errorf("read %s: %w", in.Name, end)
		}
		var l labelLine
		fault := json.Unmarshal(record.Bytes, &l)
		if fault == nil && (len(l.TraceID) == 0 || l.Labels == nil) {
			fault = errors.New("there is no trace_id or no object of labels")
		}
		if fault != nil {
			fail(record.Line, fault)
		}
		// Those of the first line stand for all, to be named when no label says anything.
		if out.fields == nil {
			out.fields = slices.Sorted(maps.Keys(l.Labels))
		}
		out.traces = append(out.traces, labelled{flowOf(l), by.mark(l.Labels)})
	}
	return nil, err
}

// flowOf is the flow that the adapter for traces makes of the trace, or that is called so.
//
// Both have to spell an id alike, or no label meets its flow: so the same characters are
// replaced and the same lengths are cut here and there.
func flowOf(l labelLine) string {
	id := strings.Trim(string(l.TraceID), `"`)
	var text string
	if json.Unmarshal(l.TraceID, &text) == nil {
		id = text
	}
	// A log of one's own has no data set: its flows are called as they are.
	if l.Dataset == "" {
		return adapter.Word([]byte(id), events.MaxID)
	}
	return adapter.Word([]byte(l.Dataset), events.MaxID/4) + "/" + adapter.Word([]byte(id), events.MaxID/2)
}

// matched returns an error for labels that match no flow.
//
// A score of nothing at all would look like one without any mistake. The error shows an id
// from the log, the first in the order of names, so that the same log gives the
// same sentence.
func (f *labelFile) matched(s *labelScore, flows map[string]*backtest.Flow) error {
	switch {
	case s.Traces == 0:
		return cli.Failure("%s: there is no label in it", f.name)
	case s.WithoutEvents == s.Traces:
		some := ""
		for id := range flows {
			if some == "" || id < some {
				some = id
			}
		}
		return cli.Failure("%s: none of the %s labelled in it is a flow of what was read", f.name, cli.Count(int64(s.Traces), "trace")).
			Advise("the labels name flows such as %q, the log has %q", f.traces[0].flow, some)
	case s.ShouldBeCaught+s.ShouldBeLeft == 0:
		return cli.Failure("%s: no label says of a trace whether it should be caught or left alone", f.name).
			Advise("name the fields that say so with --caught FIELD[=VALUE] and --honest FIELD[=VALUE]; here are %s", strings.Join(f.fields, ", "))
	}
	return nil
}

// labelName is the name of the file without what all such files end with.
func labelName(path string) string {
	name := filepath.Base(path)
	for _, suffix := range []string{".gz", ".jsonl", ".ndjson", ".json", ".labels"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// criterion says what one label means: the values at which the flow should be caught, and those
// at which it should be left alone. A value that is neither says nothing.
//
// field is a name as lookUp takes it.
type criterion struct {
	field          string
	caught, honest func(value any) bool
}

// criteria decide by the first tier that says anything; within a tier "should be caught" wins.
type criteria [][]criterion

// usualCriteria read labels by the words that people use for them: first what a person has seen
// of loops or caps, then how the run ended. After that they read whether it was a success, and
// last that it was not cut off. A failure alone is no reason to stop a flow.
func usualCriteria() criteria {
	row := func(caught, honest func(any) bool, fields ...string) (tier []criterion) {
		for _, f := range fields {
			tier = append(tier, criterion{f, caught, honest})
		}
		return tier
	}
	return criteria{
		// Each row is a tier. A loop that a person has seen takes precedence over how the run
		// ended, since runs that loop may end well.
		row(truthy, falsy, "loop_2plus", "looping", "loop", "step_repetition", "ran_to_cap"),
		append(row(truthy, never, "out_of_budget"), row(spent, completed, "exit", "exit_status", "exit_reason", "end")...),
		append(row(never, truthy, "finished", "submitted", "success", "resolved", "correct"), criterion{"reward", never, full}),
		row(never, falsy, "out_of_budget"),
	}
}

// newCriteria are the usual ones, unless fields are named.
//
// Named fields are one tier that replaces the usual ones and does not add to them: who
// names fields wants those to decide and no other.
func newCriteria(caught, honest []string) criteria {
	if len(caught) == 0 && len(honest) == 0 {
		return usualCriteria()
	}
	var tier []criterion
	for _, s := range caught {
		field, is := readField(s)
		tier = append(tier, criterion{field, is, never})
	}
	for _, s := range honest {
		field, is := readField(s)
		tier = append(tier, criterion{field, never, is})
	}
	return criteria{tier}
}

// readField reads FIELD, which has to be true, or FIELD=VALUE.
//
// Values are compared as texts, whatever their case.
func readField(s string) (field string, is func(any) bool) {
	field, want, given := strings.Cut(s, "=")
	if !given {
		return field, truthy
	}
	return field, func(v any) bool { return strings.EqualFold(text(v), want) }
}

// mark is what the labels say of a flow.
//
// It is backtest.Right for a flow that should be caught, backtest.Wrong for one that should
// be left alone, "" when no tier says anything.
func (c criteria) mark(labels map[string]any) (mark string) {
	for _, tier := range c {
		for _, x := range tier {
			v, ok := lookUp(labels, x.field)
			switch {
			case !ok:
			// The first that says "caught" decides, whatever the others of its tier say.
			case x.caught(v):
				return backtest.Right
			case x.honest(v):
				mark = backtest.Wrong
			}
		}
		if mark != "" {
			return mark
		}
	}
	return ""
}

// lookUp finds a field whatever case, spaces or dashes its name is written with; a dot leads into
// an object. What people have labelled may lie in "human", or be called so.
func lookUp(labels map[string]any, field string) (any, bool) {
	first, rest, nested := strings.Cut(field, ".")
	for name, v := range labels {
		if plainName(name) != plainName(first) {
			continue
		}
		if !nested {
			return v, true
		}
		if inner, ok := v.(map[string]any); ok {
			return lookUp(inner, rest)
		}
	}
	const people = "human"
	if human, ok := labels[people].(map[string]any); ok && !nested {
		return lookUp(human, field)
	}
	if !strings.HasPrefix(field, people) && !nested {
		return lookUp(labels, people+"_"+field)
	}
	return nil, false
}

// plainName is a name without what people spell differently: case, blanks and dashes.
func plainName(s string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(s))
}

// text is a value of JSON as people would write it; "" for null, lists and objects, which no
// criterion reads.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// never is a criterion that no value meets: a field that speaks for one side alone.
func never(any) bool { return false }

// truthy and falsy are not each other's opposite: of a value that is neither, such as
// "unknown", nothing is taken.
func truthy(v any) bool {
	return slices.Contains([]string{"true", "yes", "1"}, strings.ToLower(text(v)))
}
func falsy(v any) bool {
	return slices.Contains([]string{"false", "no", "0"}, strings.ToLower(text(v)))
}

// full is the greatest reward, as data sets give it that grade runs from 0 to 1. Less may be
// anything.
func full(v any) bool { return text(v) == "1" }

// spent and completed read how a run ended, such as "submitted (exit_cost)".
func spent(v any) bool {
	s := strings.ToLower(text(v))
	return strings.Contains(s, "exit_cost") || strings.Contains(s, "out_of_budget") || strings.Contains(s, "budget_exceeded")
}

// completed is how a run says that it came to its end by itself.
func completed(v any) bool {
	return slices.Contains([]string{"submitted", "finished", "completed", "success"}, strings.ToLower(text(v)))
}

// labelScore is how a replay did against a file of labels.
//
// Its members are the JSON of a replay with labels. The percentages are of those that
// should be caught, and of those that should be left alone; 0 when there are none.
type labelScore struct {
	Labels           string  `json:"labels"`
	Traces           int     `json:"traces"`
	WithoutEvents    int     `json:"without_events"` // labels whose trace was not among what was replayed
	ShouldBeCaught   int     `json:"should_be_caught"`
	Warned           int     `json:"warned"`
	WarnedPercent    float64 `json:"warned_percent"`
	Stopped          int     `json:"stopped"`
	StoppedPercent   float64 `json:"stopped_percent"`
	ShouldBeLeft     int     `json:"should_be_left_alone"`
	WronglyWarned    int     `json:"wrongly_warned"`
	WronglyWarnedPc  float64 `json:"wrongly_warned_percent"`
	WronglyStopped   int     `json:"wrongly_stopped"`
	WronglyStoppedPc float64 `json:"wrongly_stopped_percent"`
	MedianWorkSaved  float64 `json:"median_work_saved"` // of the flows that were rightly stopped, from 0 to 1
}

// score compares what was said of the flows with what the labels say. A flow that is stopped
// was warned, too, so Warned includes Stopped. Labels without a mark are counted in Traces and
// nowhere else.
func (f *labelFile) score(flows map[string]*backtest.Flow) labelScore {
	s := labelScore{Labels: f.name, Traces: len(f.traces)}
	var saved []float64
	for _, l := range f.traces {
		t := flows[l.flow]
		if t == nil { // what is not in the log is judged neither right nor wrong
			s.WithoutEvents++
			continue
		}
		switch l.mark {
		case backtest.Right:
			s.ShouldBeCaught++
			s.Warned += one(t.Warned != nil)
			s.Stopped += one(t.Stopped != nil)
			if t.Stopped != nil {
				saved = append(saved, t.Saved())
			}
		case backtest.Wrong:
			s.ShouldBeLeft++
			s.WronglyWarned += one(t.Warned != nil)
			s.WronglyStopped += one(t.Stopped != nil)
		}
	}
	s.WarnedPercent, s.StoppedPercent = percent(s.Warned, s.ShouldBeCaught), percent(s.Stopped, s.ShouldBeCaught)
	s.WronglyWarnedPc, s.WronglyStoppedPc = percent(s.WronglyWarned, s.ShouldBeLeft), percent(s.WronglyStopped, s.ShouldBeLeft)
	s.MedianWorkSaved = round(median(saved), 1000)
	return s
}

// printScores prints a line for each file of labels, after the summary. In the JSON form they
// are further lines behind it.
func printScores(env *cli.Env, labels []*labelFile, flows map[string]*backtest.Flow) error {
	if len(labels) == 0 {
		return nil
	}
	if env.Format == cli.TableFormat {
		_, _ = fmt.Fprintln(env.Out)
	}
	lines := cli.NewLines(env, func(s *labelScore) []cli.Cell {
		n := func(n, of int) cli.Cell {
			if of == 0 {
				return cli.Cell{Text: "-", Right: true}
			}
			return cli.Cell{Text: fmt.Sprintf("%d of %d (%.0f %%)", n, of, 100*float64(n)/float64(of)), Right: true}
		}
		return []cli.Cell{{Text: s.Labels}, {Text: fmt.Sprint(s.Traces), Right: true}, n(s.Warned, s.ShouldBeCaught), n(s.Stopped, s.ShouldBeCaught),
			n(s.WronglyWarned, s.ShouldBeLeft), n(s.WronglyStopped, s.ShouldBeLeft), {Text: fmt.Sprintf("%.0f %%", 100*s.MedianWorkSaved), Right: true}}
	}, "LABELS", "TRACES", "WARNED", "STOPPED", "WRONGLY WARNED", "WRONGLY STOPPED", "WORK SAVED")
	// The summary stands above, so the first line of YAML needs its mark, too.
	lines.Apart()
	// Files that match nothing are named; it is an error when all of them are like that.
	var nothing error
	matched := false
	for _, l := range labels {
		s := l.score(flows)
		if err := l.matched(&s, flows); err != nil {
			// The first is kept, for it is the error when no file fits; the others are printed as
			// they come.
			if nothing == nil {
				nothing = err
			} else {
				env.Notice("%v", err)
			}
			continue
		}
		matched = true
		if s.WithoutEvents > 0 {
			env.Notice("%s: %d of %d traces are not in the files replayed", s.Labels, s.WithoutEvents, s.Traces)
		}
		if err := lines.Print(&s); err != nil {
			return err
		}
	}
	if matched && nothing != nil {
		env.Notice("%v", nothing)
		nothing = nil
	}
	return errors.Join(lines.Flush(), nothing)
}

// sortOut separates label files from logs: the former may be among the arguments when
// the shell made many names out of one pattern.
//
// Without --labels no file is inspected, so that a log is never taken for labels by
// accident. Standard input is never inspected, because it can be read only once. topic is true
// if a topic is read, for which no files are needed.
func (o *replayFlags) sortOut(env *cli.Env, args []string, topic bool) (files []string, labels []*labelFile, err error) {
	by := newCriteria(*o.caught, *o.honest)
	take := func(in *logs.Input) error {
		l, err := readLabels(in, by)
		if err == nil {
			labels = append(labels, l)
		}
		return err
	}
	for _, name := range *o.labels {
		in, err := open(env, name)
		if err != nil {
			return nil, nil, err
		}
		err = take(in)
		in.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	for _, name := range args {
		if name == logs.Stdin || len(*o.labels) == 0 {
			files = append(files, name)
			continue
		}
		in, err := open(env, name)
		if errors.Is(err, logs.ErrFolder) {
			files = append(files, name)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if isLabels(in.Body().Head()) {
			err = take(in)
		} else {
			files = append(files, name)
		}
		in.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	if len(files) == 0 && !topic {
		return nil, nil, cli.Usage("a FILE is missing").Advise("weir replay FILE, or weir replay - for standard input; --brokers HOST:PORT reads a topic")
	}
	return files, labels, nil
}

// one lets what is true be added up.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// percent has one digit after the point.
// percent is 0 of nothing.
func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return round(100*float64(n)/float64(of), 10)
}

// round rounds v to a multiple of 1/to, as for JSON that people compare; v must not be
// negative.
func round(v, to float64) float64 { return float64(int64(v*to+0.5)) / to }

// median is 0 of no values. It puts v in order.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
