package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/events/adapter"
	"weir/events/adapter/mapped"
	"weir/events/adapter/registry"
)

// reading is the flags that say how logs are read.
//
// It is made for one command and holds what happened to its files: done has to be called at
// the end, or files that were left out go unsaid in the exit code.
type reading struct {
	format *cli.Choice
	left   int           // files that could not be read, and were left out
	inputs []*logs.Input // that were opened
	unread []adapter.Unread
}

// newReading declares the flags. --map and --map-file write into format, so that a mapping is
// a format like any other from there on.
func newReading(fs *pflag.FlagSet) *reading {
	var names []string
	for _, f := range registry.Formats() {
		names = append(names, f.Name)
	}
	format := cli.NewChoice(fs, "format", "", "read the files as `FORMAT` instead of detecting it; FORMAT@conversation,trace sets what identifies a flow", names...)
	format.Other = operate.IsFormat
	fs.Var(operate.MapFlag{Format: format}, "map", "read any JSON objects by the mapping `FIELD=PATH,...`, such as from=.sender.id; auto proposes one; repeatable")
	fs.Var(operate.MapFlag{Format: format, IsFile: true}, "map-file", "the same from a `FILE`, one FIELD=PATH per line")
	return &reading{format: format}
}

// namedFiles is up to how many files are named one by one.
const namedFiles = 8

// open opens the files, finds their formats and prints what was found. A file that cannot be
// read is an error only when it is the only one that was named.
//
// Folders are replaced by the files in them. A file that is named alone must be
// readable; files in a folder, or beside others, are reported and left out. The inputs
// are in the order of the names and rest: none of them is open. The caller closes them.
func (r *reading) open(env *cli.Env, names []string) (inputs []*logs.Input, err error) {
	defer func() {
		if err != nil {
			closeAll(inputs)
		}
	}()
	// Of a folder the files; what is no folder stays as it was named, there or not.
	files, err := logs.Expand(names)
	if err != nil {
		return nil, err
	}
	// Folders hold all kinds of things, so files are reported by reason and not one by one.
	var unknown, empty []string
	var others [][2]string // what is no file, and why
	for i, one := range r.lookInto(env, files) {
		file, in, err := files[i], one.in, one.err
		switch {
		case err == nil:
			inputs = append(inputs, in)
		case isNotFile(err):
			others = append(others, [2]string{file.Path, err.Error()})
		case errors.Is(err, logs.ErrEmpty) && (file.InFolder || len(files) > 1):
			empty = append(empty, file.Path)
		// With a --format every file of a folder has to be of it, so one that is not is worth
		// a word of its own.
		case errors.Is(err, registry.ErrUnknown) && file.InFolder && r.format.Value == "":
			unknown = append(unknown, file.Path)
		// One bad file among many is reported and left out, and the exit code says so at the end.
		case len(files) > 1:
			r.leave(env, err)
		default:
			return inputs, err
		}
	}
	// What was found is printed before what was not, so that the user first sees what is read.
	r.notice(env, inputs)
	noticeFiles(env, unknown, "skipped", "unknown format")
	noticeFiles(env, empty, "empty", "")
	for _, x := range others[:min(len(others), namedFiles)] {
		noticeFiles(env, x[:1], "skipped", x[1])
	}
	if n := len(others) - namedFiles; n > 0 {
		env.Notice("and %d more that are no files", n)
	}
	switch {
	case len(inputs) > 0:
		r.inputs = inputs
		return inputs, nil
	// The error names the most likely reason why no file was read.
	case len(files) == len(others):
		return nil, cli.Failure("there is no file in %s", strings.Join(names, ", ")).Advise("hidden files and folders are passed over")
	case len(empty) > 0 && len(unknown) == 0 && r.left == 0:
		return nil, cli.Failure("all files in %s are empty", strings.Join(names, ", "))
	}
	return nil, cli.Failure("no file in %s has a format that is known", strings.Join(names, ", ")).Advise("weir events describe says what each format is")
}

// isNotFile reports whether a folder holds something there that is no file, such as a socket.
func isNotFile(err error) bool {
	_, is := errors.AsType[logs.NotFile](err)
	return is
}

// opened is an input whose format is known, or why there is none.
type opened struct {
	in  *logs.Input
	err error
}

// lookInto opens the files and finds their formats, several at a time.
//
// Finding a format takes the beginning of each file, which for thousands of files in a
// folder is mostly waiting for the disk. The result is in the order of files, not in that of
// their completion.
func (r *reading) lookInto(env *cli.Env, files []logs.File) []opened {
	out := make([]opened, len(files))
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		running.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(files); i = next.Add(1) - 1 {
				in, err := (*logs.Input)(nil), files[i].Fault
				if err == nil {
					in, err = open(env, files[i].Path)
				}
				if err == nil {
					if err = recognize(in, r.format.Value); err != nil {
						in.Close()
					} else {
						// Opened again in its turn: descriptors are few, and each open file
						// has buffers.
						in.Rest()
					}
				}
				out[i] = opened{in, err}
			}
		})
	}
	running.Wait()
	return out
}

// leave names a file that cannot be read, or not to its end. The others are read.
func (r *reading) leave(env *cli.Env, err error) {
	r.left++
	env.Notice("%v; the other files are read", err)
}

// ordered reports that logs were put in the order of time.
func (r *reading) ordered(env *cli.Env, rd *logs.Reader) {
	if rd.Jumps > 0 {
		env.Notice("not in the order of time, and sorted: %s back; first %s", cli.Count(rd.Jumps, "jump"), rd.Jump)
	}
}

// timed ends a clock, and says how many events were far ahead of the log.
func (r *reading) timed(env *cli.Env, clock *logs.Clock) error {
	if err := clock.End(); err != nil {
		return err
	}
	if clock.Ahead > 0 {
		env.Notice("%s far ahead of those around (the first at %s): taken for as late as the log had come", cli.Count(clock.Ahead, "event"), clock.First.Time().UTC().Format(time.RFC3339))
	}
	return nil
}

// done is what a command ends with that did all it was asked for: a finding when files were
// left out.
func (r *reading) done(env *cli.Env) error {
	var beside int64
	for _, in := range r.inputs {
		beside += in.Beside()
	}
	if beside > 0 {
		env.Notice("%s without a record passed over", cli.Count(beside, "line"))
	}
	r.noticeUnread(env)
	if r.left == 0 {
		return nil
	}
	env.Notice("%s could not be read", cli.Count(int64(r.left), "file"))
	return cli.Exit(cli.CodeFinding)
}

// notUnderstood keeps the records that a mapping could not read, for noticeUnread.
func (r *reading) notUnderstood(u adapter.Unread) { r.unread = append(r.unread, u) }

// noticeUnread says what a mapping made nothing of, once.
func (r *reading) noticeUnread(env *cli.Env) {
	for _, u := range r.unread {
		var passed int64
		for _, n := range u.Kinds {
			passed += n
		}
		if n := u.Kinds[""]; n > 0 {
			env.Notice("%d of %s name neither a kind that is known, nor who is called, nor a tool", n, cli.Count(u.Records, "record"))
			passed -= n
		}
		delete(u.Kinds, "")
		if passed > 0 {
			words := slices.SortedFunc(maps.Keys(u.Kinds), func(a, b string) int { return cmp.Or(cmp.Compare(u.Kinds[b], u.Kinds[a]), cmp.Compare(a, b)) })
			var told []string
			for _, word := range words[:min(len(words), namedFiles)] {
				told = append(told, fmt.Sprintf("%q (%d)", word, u.Kinds[word]))
			}
			if n := len(words) - len(told); n > 0 {
				told = append(told, fmt.Sprintf("%d more", n))
			}
			env.Notice("%d of %s are of kinds that the mapping does not explain: %s; kind.TEXT=tool.call says what TEXT means", passed, cli.Count(u.Records, "record"), strings.Join(told, ", "))
		}
		if len(u.Never) > 0 {
			env.Notice("no record has what the mapping takes for %s: is the path right?", strings.Join(u.Never, ", "))
		}
	}
	r.unread = nil
}

// notice prints which formats were found.
//
// It prints nothing when the user set the format. Many files are listed by format, in the
// order in which each was first found.
func (r *reading) notice(env *cli.Env, inputs []*logs.Input) {
	if r.format.Value == mapped.Prefix+mapped.Auto {
		for _, in := range inputs[:min(len(inputs), namedFiles)] {
			if p := in.Proposed; p != nil {
				env.Notice("reading %s by --map '%s' (proposed from %s): %s", in.Name, p.Mapping, cli.Count(int64(p.Records), "record"), p)
			} else {
				env.Notice("reading %s as %s (detected)", in.Name, in.Says())
			}
		}
		return
	}
	if r.format.Value != "" {
		return
	}
	if len(inputs) <= namedFiles {
		for _, in := range inputs {
			env.Notice("reading %s as %s (detected)", in.Name, in.Says())
		}
		return
	}
	count, order := map[string]int64{}, []string(nil)
	for _, in := range inputs {
		if count[in.Says()]++; count[in.Says()] == 1 {
			order = append(order, in.Says())
		}
	}
	for i, says := range order {
		order[i] = fmt.Sprintf("%d as %s", count[says], says)
	}
	env.Notice("reading %s (detected): %s", cli.Count(int64(len(inputs)), "file"), strings.Join(order, ", "))
}

// noticeFiles names the first files that are left out for one reason.
func noticeFiles(env *cli.Env, files []string, what, why string) {
	if why != "" {
		why = ": " + why
	}
	switch n := len(files); n {
	case 0:
	case 1:
		env.Notice("%s is %s%s", files[0], what, why)
	default:
		list := strings.Join(files[:min(n, namedRefusals)], ", ")
		if n > namedRefusals {
			list += fmt.Sprintf(" and %d more", n-namedRefusals)
		}
		env.Notice("%d files are %s%s: %s", n, what, why, list)
	}
}

// closeAll closes inputs, also those that rest or were read to their ends.
func closeAll(inputs []*logs.Input) {
	for _, in := range inputs {
		in.Close()
	}
}

// refusals are the records that could not be read; the first are reported one by
// one.
type refusals struct {
	n     int64
	first []logs.BadRecord
}

// namedRefusals is how many of one kind of trouble are named one by one: enough to see what is
// wrong, since the hundredth is like the first.
const namedRefusals = 3

// add keeps a record of the first few. Its Raw may be overwritten afterwards; only its place
// and the reason are reported.
func (r *refusals) add(b logs.BadRecord) {
	r.n++
	if len(r.first) < namedRefusals {
		r.first = append(r.first, b)
	}
}

// notice says on standard error what could not be read. It is called when progress is over,
// which would write over it.
func (r *refusals) notice(env *cli.Env) {
	for _, b := range r.first {
		env.Notice("%s: not read: %s", b.Place(), b.Reason)
	}
	if n := r.n - int64(len(r.first)); n > 0 {
		env.Notice("and %s more", cli.Count(n, "record"))
	}
}

// most is the error that most records could not be read: then the results of the rest say little of
// the log. nil if at least as many were read.
func (r *refusals) most(read int64) error {
	if r.n <= read {
		return nil
	}
	return cli.Failure("%s of %s could not be read", cli.Grouped(r.n), cli.Count(r.n+read, "record")).Advise("weir events validate FILE lists them; weir events describe says what each format is")
}

// instead is what goes on a sentence that there is no event: what there was instead.
func (r *refusals) instead() string {
	if r.n == 0 {
		return ""
	}
	return "; " + cli.Count(r.n, "record") + " could not be read: was it copied whole?"
}

// open opens a file, or standard input.
//
// Standard input must be opened once only. A folder is a fault of use here, because folders
// that may stand in the arguments were replaced before.
func open(env *cli.Env, name string) (*logs.Input, error) {
	if name == logs.Stdin {
		return logs.From(name, env.In)
	}
	in, err := logs.Open(name)
	switch {
	case errors.Is(err, logs.ErrFolder):
		err = cli.Usage("%w", err).Advise("name the files in it: %s/*", name)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = cutOff(err)
	}
	return in, err
}

// cutOff is the error of a compressed file of which the end is missing.
func cutOff(err error) error {
	return cli.Failure("%w", err).Advise("it is compressed and ends too early: was it copied whole?")
}

// recognize finds the format of an input, by the name of a format or by its beginning.
//
// format is "" to detect it. Errors of detection get a hint; errors of a format that
// the user named stay as they are.
func recognize(in *logs.Input, format string) error {
	err := in.Recognize(format)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, logs.ErrEmpty):
		return cli.Failure("%w", err).Advise("was it written yet?")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return cutOff(err)
	case format == "" && errors.Is(err, registry.ErrUnknown):
		if p, none := registry.Propose(in.Body().Head()); none == nil {
			return cli.Failure("%w", err).Advise("--map auto reads it by --map '%s'; of %s: %s", p.Mapping, cli.Count(int64(p.Records), "record"), p)
		}
		fallthrough
	case format == "":
		return cli.Failure("%w", err).Advise("weir events describe says what each format is; JSON of any kind is read by --map flow=.run,from=.sender.id,to=.target and the like: weir events describe map")
	}
	return err
}
