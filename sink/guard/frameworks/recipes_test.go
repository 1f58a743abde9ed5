package frameworks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// recipe is a section of RECIPES.md and what it is run with.
type recipe struct {
	title   string
	number  string                    // of the journey
	command func(dir string) []string // nil for Go: the code is compiled
	// own says that the framework ends a run of equal calls itself before weir does.
	own bool
}

func inPython(environment, model string) func(string) []string {
	return func(dir string) []string {
		return []string{filepath.Join(dir, environment, "bin", "python"), filepath.Join("testdata", "recipes", model)}
	}
}

func inNode(model string) func(string) []string {
	return func(dir string) []string {
		return []string{"node", filepath.Join("testdata", "recipes", model), filepath.Join(dir, "node")}
	}
}

var recipes = []recipe{
	{title: "LangGraph", number: "J2", command: inPython("python", "langgraph_model.py")},
	{title: "One agent for many requests", number: "J2", command: inPython("python", "server_model.py")},
	{title: "OpenAI Agents SDK", number: "J3", command: inPython("python", "openai_agents_model.py")},
	{title: "CrewAI", number: "J4", command: inPython("crewai", "crewai_model.py"), own: true},
	{title: "Pydantic AI", number: "J6", command: inPython("python", "pydantic_ai_model.py")},
	{title: "Google ADK", number: "J7", command: inPython("python", "google_adk_model.py")},
	{title: "AG2", number: "J8", command: inPython("python", "ag2_model.py")},
	{title: "Strands Agents", number: "J9", command: inPython("python", "strands_model.py")},
	{title: "OpenAI client", number: "J10", command: inPython("python", "openai_model.py")},
	{title: "AI SDK (TypeScript)", number: "J5", command: inNode("ai_model.mjs")},
	{title: "A plain function (Python)", number: "J10", command: inPython("python", "plain.py")},
	{title: "A plain function (TypeScript)", number: "J10", command: inNode("plain.mjs")},
	{title: "A plain function (Go)", number: "J12"},
	{title: "Other frameworks (Python)", number: "J10", command: inPython("python", "functions_model.py")},
	{title: "Other frameworks (TypeScript)", number: "J10", command: inNode("langchain_model.mjs")},
}

const (
	page      = "../RECIPES.md"
	pageURL   = "http://127.0.0.1:8080" // as the page has it
	allCalls  = 40
	mostEqual = 7
	mostLines = 15
)

// code is that of a section of the page.
func (r *recipe) code(t *testing.T, text string) string {
	t.Helper()
	_, section, found := strings.Cut(text, "\n## "+r.title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	block := regexp.MustCompile("(?s)```(?:python|ts|go)\n(.*?)```").FindStringSubmatch(section)
	if !found || block == nil {
		t.Fatalf("%s has no code for %s", page, r.title)
	}
	if n := strings.Count(block[1], "\n"); n > mostLines {
		t.Errorf("the recipe has %d lines, want %d at most", n, mostLines)
	}
	return block[1]
}

// TestPageHasRecipes holds the page to the list of recipes that are run, in both directions.
func TestPageHasRecipes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, r := range recipes {
		listed[r.title] = true
		if code := r.code(t, string(text)); !strings.Contains(code, pageURL) {
			t.Errorf("%s: the code does not name %s", r.title, pageURL)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^## (.*)$").FindAllStringSubmatch(string(text), -1) {
		if !listed[m[1]] {
			t.Errorf("the recipe %q is not run by any test", m[1])
		}
	}
}

// TestRecipes runs the code of the page with the real frameworks, a scripted model and a weir of its
// own: of 40 equal calls few run, an honest run of the same shape loses none, and when weir is killed
// in the middle the run goes on, or stands still where the guard is closed.
func TestRecipes(t *testing.T) {
	dir := folder(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	weir := weirtest.Binary(t)
	for _, r := range recipes {
		t.Run(strings.ReplaceAll(r.title, " ", "_"), func(t *testing.T) {
			code := r.code(t, string(text))
			j := weirtest.NewJourney(t, r.number+" "+r.title, "of 40 equal calls at most 7 run, of an honest run all; weir killed: it goes on")
			j.Lines = strings.Count(code, "\n")
			t.Run("equal", func(t *testing.T) {
				w := startWeir(t, weir)
				got := r.run(t, dir, code, w.url)
				j.Saw("%d equal ran", got.Ran)
				if got.Ran < 1 || got.Ran > mostEqual {
					t.Errorf("%d of %d equal calls ran, want %d at most: %s", got.Ran, allCalls, mostEqual, got.Error)
				}
				if status := w.status(t, got.Flow); !r.own && !strings.Contains(status, "repetition_detected") {
					t.Errorf("weir did not stop the flow: %.500s", status)
				}
			})
			t.Run("honest", func(t *testing.T) {
				got := r.run(t, dir, code, startWeir(t, weir).url, "RECIPE_MODE=honest")
				j.Saw("%d honest", got.Ran)
				if got.Ran != allCalls || got.Error != "" {
					t.Errorf("%d of %d calls ran: %s", got.Ran, allCalls, got.Error)
				}
			})
			t.Run("killed", func(t *testing.T) {
				w := startWeir(t, weir)
				got := r.run(t, dir, code, w.url, "RECIPE_MODE=honest", "RECIPE_KILL="+strconv.Itoa(w.pid))
				j.Saw("%d with weir killed", got.Ran)
				if got.Ran != allCalls || got.Error != "" {
					t.Errorf("%d of %d calls ran: %s", got.Ran, allCalls, got.Error)
				}
			})
			t.Run("killed_closed", func(t *testing.T) {
				w := startWeir(t, weir)
				closed := strings.Replace(code, `"`+pageURL+`")`, `"`+pageURL+`", fail_closed=True)`, 1)
				if strings.Contains(code, "await Guard.connect") {
					closed = strings.Replace(code, `"`+pageURL+`")`, `"`+pageURL+`", { failClosed: true })`, 1)
				}
				if r.command == nil {
					closed = strings.Replace(code, `guard.Dial("`+pageURL+`")`, `guard.New(guard.Options{URL: "`+pageURL+`", FailClosed: true})`, 1)
				}
				got := r.run(t, dir, closed, w.url, "RECIPE_MODE=honest", "RECIPE_KILL="+strconv.Itoa(w.pid))
				j.Saw("%d with fail_closed", got.Ran)
				if got.Ran != 3 {
					t.Errorf("%d calls ran, want the 3 before weir was killed: %s", got.Ran, got.Error)
				}
			})
		})
	}
}

// outcome is what the scripts say of a run.
type outcome struct {
	Ran         int
	Flow, Error string
}

func (r *recipe) run(t *testing.T, dir, code, url string, more ...string) (got outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var command []string
	if r.command == nil {
		command = compiled(t, strings.ReplaceAll(code, pageURL, url))
	} else {
		command = r.command(dir)
	}
	cmd := newScript(ctx, t, command, append([]string{"OPENAI_API_KEY=none", "RECIPE_MODE=equal"}, more...)...)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(code, pageURL, url))
	began := time.Now()
	cmd.prints(t, &got)
	t.Logf("%d of %d calls ran, %.1f s, %d lines: %s", got.Ran, allCalls, time.Since(began).Seconds(), strings.Count(code, "\n"), got.Error)
	return got
}

// compiled makes a program of the code, in the module of this repository.
func compiled(t *testing.T, code string) []string {
	t.Helper()
	frame, err := os.ReadFile(filepath.Join("testdata", "recipes", "plain.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "recipe")
	if err := os.WriteFile(source, []byte(strings.Replace(string(frame), "\tCODE\n", code, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("the code of the page does not compile: %v\n%s", err, out)
	}
	return []string{program}
}

// running is a weir of its own process.
type running struct {
	url string
	pid int
}

func startWeir(t *testing.T, program string, more ...string) running {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"run", "--state", filepath.Join(dir, "state"), "--listen", "127.0.0.1:0", "--metrics", ""}, more...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = log.Close()
	})
	// Its address stands in what it says when it runs.
	address := regexp.MustCompile(`"address":"([^"]+)"`)
	for {
		said, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := address.FindSubmatch(said); found != nil {
			return running{url: "http://" + string(found[1]), pid: cmd.Process.Pid}
		}
		select {
		case <-ended:
			t.Fatalf("weir ended: %s", said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// status is what weir says of a flow.
func (w running) status(t *testing.T, flow string) string {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/v1/flows/%s", w.url, flow))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
