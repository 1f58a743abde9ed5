package conformance

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
)

// Program is a guard of another language, run by its own interpreter. It reads a command a line and writes an answer a
// line.
type Program struct {
	name string
	run  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

// Begin starts a program that ends with the test.
func Begin(t testing.TB, name string, command ...string) *Program {
	t.Helper()
	run := exec.CommandContext(t.Context(), command[0], command[1:]...)
	run.Stderr = os.Stderr
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = run.Wait() // the context has ended it
	})
	return &Program{name: name, run: run, in: in, out: bufio.NewScanner(out)}
}

// Do gives a command and returns the answer.
func (g *Program) Do(t testing.TB, command map[string]any) (answer map[string]any) {
	t.Helper()
	text, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	if !g.out.Scan() {
		t.Fatalf("the guard of %s has ended: %v", g.name, g.out.Err())
	}
	if err := json.Unmarshal(g.out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, g.out.Bytes())
	}
	return answer
}

// End lets the guard send what it has to say, and ends it.
func (g *Program) End(t testing.TB) {
	t.Helper()
	_ = g.in.Close()
	if err := g.run.Wait(); err != nil {
		t.Error(err)
	}
}

// Name returns the name that it was started with.
func (g *Program) Name() string { return g.name }

// Check sends checks, those of one time one after the other, to the weir that the program follows.
func (g *Program) Check(t testing.TB, _ string, checks []Check) (answers []map[string]any) {
	t.Helper()
	for _, c := range checks {
		answers = append(answers, g.Do(t, map[string]any{"do": "ask", "call": c.Call}))
	}
	return answers
}
