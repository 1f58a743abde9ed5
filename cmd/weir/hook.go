package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"bufio"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"strings"

	"weir/analyzer/scenario"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/hook"
	"weir/cmd/internal/hooksettings"
	"weir/sink/check"
)

// runHook answers the hook of a coding agent.
//
// It exits with a code that the agent understands, and never with that of a misspelled flag
// (see usageCode). When the address or the token cannot be found out, closed decides. It lets
// hook.Run fail without a request, so that the tool is refused in the agent's own words.
func runHook(ctx context.Context, env *cli.Env, p *target, closed, noTokens bool) error {
	s := hook.Server{Closed: closed, Silent: noTokens}
	c, err := p.Client(env)
	if err != nil && !closed {
		return err
	}
	if err == nil {
		s.URL, s.Token = c.Base, c.Token
	}
	code, err := hook.Run(ctx, s, env.In, env.Out, env.Err)
	if err != nil || code == 0 {
		return err
	}
	return cli.Exit(code)
}

// hookCommand is how the shell of an agent runs the hook: by weir-hook where that lies beside
// this program, because it starts sooner.
//
// The result is the words of a command line that are already quoted for a shell. A file
// that is there and cannot be executed is passed over.
func hookCommand(env *cli.Env) []string {
	weir := weirCommand(env)
	self, err := os.Executable()
	if err != nil {
		return []string{weir, "check", "--hook"}
	}
	beside := filepath.Join(filepath.Dir(self), "weir-hook")
	info, err := os.Stat(beside)
	switch {
	case err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return []string{weir, "check", "--hook"}
	// Settings that name no path can be carried to another machine.
	case weir == "weir": // found by its name, so what lies beside it is, too
		return []string{"weir-hook"}
	}
	return []string{quoted(beside)}
}

// hookSetup is what the flags say of the settings of an agent.
//
// They are pointers because flags are declared before they are parsed. program is the
// agent's name, as check.HookPrograms lists them; "" if no settings are wanted.
type hookSetup struct {
	program, settings, plugin *string
	install, yes              *bool
}

// run prints the settings of the agent with weir's hooks in them, or writes them.
//
// The given server and token file go into the command that the agent will
// run, because agents start hooks with an environment of their own. Nothing is written without
// --install, and then only when the text differs and the user agrees.
func (h *hookSetup) run(env *cli.Env, p *target, closed, noTokens bool) error {
	// For the address alone, which plugins and some settings name; no request is sent.
	c, err := p.Client(env)
	if err != nil {
		return err
	}
	command := commandOf(env, p, closed)
	if noTokens {
		command = append(command, "--no-tokens")
	}
	if *h.plugin != "" {
		return h.writePlugin(env, strings.Join(command, " "), c.Base, closed)
	}
	config, err := check.HookConfigFor(*h.program, strings.Join(command, " "), c.Base, closed)
	if err != nil {
		return cli.Usage("--hook-config: %v", err)
	}
	path, err := h.path(env, config.File)
	if err != nil {
		return err
	}
	// A file that is not there yet has no settings, and becomes those of weir alone.
	var old []byte
	if path != "" {
		if old, err = os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.Failure("the settings of %s: %w", *h.program, err)
		}
	}
	text := config.Text
	// A file of weir's own is written as it is. In one that belongs to the agent, everything
	// else stays.
	if !config.Own {
		if text, err = hooksettings.Merge(old, config.Text); err != nil {
			return cli.Failure("the settings in %s: %w", path, err).Advise("nothing was changed; mend the file, or name another one with --settings FILE")
		}
	}
	// What would be written goes to standard output and nothing else does, so that it can be
	// redirected.
	if !*h.install {
		_, err := env.Out.Write(text)
		if path != "" && err == nil {
			env.Notice("These settings belong into %s; --install writes them.", path)
		}
		return err
	}
	if path == "" {
		return cli.Usage("--install: there is no home folder").Advise("name the file with --settings FILE")
	}
	remove := "delete the entries of weir from that file"
	if config.Own {
		remove = "delete that file"
	}
	if err := h.replace(env, path, old, text, remove); err != nil {
		return err
	}
	// What remains to be done by hand, such as to say that the hooks may run; said also when
	// nothing changed.
	if config.Note != "" {
		env.Notice("%s", config.Note)
	}
	return nil
}

// commandOf is the command that the agent will run. A variable of this shell may not be set where the agent starts, so
// only flags count.
func commandOf(env *cli.Env, p *target, closed bool) []string {
	command := hookCommand(env)
	// Only what was given here by a flag: a variable of this shell may not be set where the
	// agent starts.
	if *p.URL != "" {
		command = append(command, "--server", quoted(*p.URL))
	}
	if *p.TokenFile != "" {
		command = append(command, "--token-file", quoted(*p.TokenFile))
	}
	// What a hook does while weir is unreachable is set once, in its command.
	if closed {
		command = append(command, "--closed")
	}
	return command
}

// replace writes the settings if they differ and the user agrees. remove is how the hooks are removed again.
func (h *hookSetup) replace(env *cli.Env, path string, old, text []byte, remove string) error {
	if string(text) == string(old) {
		env.Notice("%s has the hooks of weir already.", path)
		return nil
	}
	env.Notice("--- %s\n+++ %s, with the hooks of weir", path, path)
	for line := range strings.Lines(lineDiff(string(old), string(text))) {
		env.Notice("%s", strings.TrimSuffix(line, "\n"))
	}
	if !*h.yes && !agrees(env, path) {
		return cli.Failure("nothing was written to %s", path).Advise("answer y, or give --yes")
	}
	if err := replaceFile(path, text); err != nil {
		return err
	}
	env.Notice("%s was written.", path)
	env.Notice("Start weir (weir run), then a new session of the agent. weir flows ls lists its flows.")
	env.Notice("To remove the hooks, %s.", remove)
	return nil
}

// writePlugin writes the hooks as a plugin into a folder, and says how to install it.
//
// Each file is replaced in one step, but not all of them together; they are written in the
// order of their names.
func (h *hookSetup) writePlugin(env *cli.Env, command, url string, closed bool) error {
	if *h.install || *h.settings != "" {
		return cli.Usage("--plugin is given beside --install or --settings").Advise("a plugin is installed by the agent itself")
	}
	plugin, err := check.HookPluginFor(*h.program, command, url, closed)
	if err != nil {
		return cli.Usage("--plugin: %v", err)
	}
	folder, err := filepath.Abs(*h.plugin)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(plugin.Files)) {
		if err := replaceFile(filepath.Join(folder, filepath.FromSlash(name)), plugin.Files[name]); err != nil {
			return err
		}
		env.Notice("%s was written.", filepath.Join(folder, filepath.FromSlash(name)))
	}
	env.Notice("To install it: "+plugin.Note, folder)
	return nil
}

// path is where the settings are; "" when that is not known.
//
// file is below the home folder, with slashes. Home is read from the environment of the
// command, so that tests have one of their own.
func (h *hookSetup) path(env *cli.Env, file string) (string, error) {
	path := *h.settings
	if home := env.Getenv("HOME"); path == "" && home != "" {
		path = filepath.Join(home, filepath.FromSlash(file))
	}
	if path == "" {
		return "", nil
	}
	// Settings are often a link into a folder that is kept elsewhere. The link stays.
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return real, err
}

// weirCommand is how an agent's shell finds this program: by its name, or by its path
// when the name leads to no program or to another one. A hook that is not found lets
// every call run.
func weirCommand(env *cli.Env) string {
	self, err := os.Executable()
	if env.Getenv("PATH") == "" || err != nil {
		return "weir"
	}
	if found, err := exec.LookPath("weir"); err == nil && sameFile(found, self) {
		return "weir"
	}
	return quoted(self)
}

// sameFile reports whether both paths lead to one file, by whatever links. Two that cannot be
// looked at are not the same.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	second, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// agrees asks the person at the terminal. Only y and yes agree: no input, as in a script, is
// no.
func agrees(env *cli.Env, path string) bool {
	_, _ = cli.Fprintf(env.Err, "Write %s? [y/N] ", path)
	answer, _ := bufio.NewReader(io.LimitReader(env.In, 100)).ReadString('\n') // what ends early is no yes
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// replaceFile writes a file in one step, so that an agent that starts meanwhile reads the
// old settings or the new ones.
func replaceFile(path string, text []byte) error {
	// Settings of agents may hold keys. A new file is for its owner alone; one that is there
	// keeps its mode.
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// In the same folder, since a rename does not cross file systems.
	f, err := os.CreateTemp(filepath.Dir(path), ".weir-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // is gone when all went well
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lineDiff returns the lines of both texts, those that go with a minus and those that
// come with a plus, and of the same ones at most three beside them.
//
// It is quick enough for settings files and for nothing larger, see scenario.Difference.
func lineDiff(old, text string) string {
	lines := scenario.Difference(strings.SplitAfter(old, "\n"), strings.SplitAfter(text, "\n"))
	// As many lines as other programs show that compare texts.
	const beside = 3
	var out strings.Builder
	for n, line := range lines {
		near := false
		for _, l := range lines[max(0, n-beside):min(len(lines), n+beside+1)] {
			near = near || l[0] != ' '
		}
		if near && len(line) > 2 {
			out.WriteString(line[:1] + strings.TrimSuffix(line[2:], "\n") + "\n")
		}
	}
	return out.String()
}
