package adapter_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/events/adapter"
	"weir/events/adapter/registry"
)

const recordedPage = "RECORDED.md"

// surface is a place at which programs ask weir, and what tries it with the real ones.
type surface struct {
	name      string
	installed string   // file with the versions
	programs  []string // as they stand there
	tried     string   // command, and the page with the figures
	code      []string // patterns
}

var surfaces = []surface{
	{"`POST /api/v1/hooks:evaluate`", "sink/check/sdks/install.sh", []string{"agento11y==0.21.0", "agento11y-langgraph==0.21.0", "agento11y-openai-agents==0.21.0", "agento11y-pydantic-ai==0.21.0", "agento11y-litellm==0.21.0", "agento11y-claude-agent-sdk==0.21.0"},
		"`make sdks`, [HTTP](../../cmd/weir/HTTP.md)", []string{"sink/check/evaluate.go"}},
	{"hooks of coding agents", "sink/check/clients/install.sh", []string{"@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.169.0", "@google/gemini-cli@0.61.0", "@qwen-code/qwen-code@0.15.10", "@github/copilot@1.0.102", "cline@3.0.65", "opencode-ai@1.18.33"},
		"`make clients`, [clients](../../sink/check/clients/README.md)", []string{"sink/check/hook*.go", "sink/check/opencode.js", "cmd/internal/hook/*.go"}},
	{"MCP server (`weir mcp`)", "sink/check/sdks/install.sh", []string{"mcp==2.3.0", "@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"}, "`make sdks`, [MCP](../../cmd/weir/MCP.md)", []string{"cmd/internal/mcpserver/*.go"}},
	{"extension of A2A", "sink/check/sdks/install.sh", []string{"a2a-sdk[http-server]==1.3.0", "@a2a-js/sdk@1.3.0"}, "`make sdks`, [EXTENSION](../a2aflow/EXTENSION.md)",
		[]string{"events/a2aflow/*.go", "sink/check/a2aflow.go", "sink/guard/python/weir_guard/a2a.py", "sink/guard/typescript/a2a.ts"}},
	{"interrupts of AG-UI", "sink/guard/frameworks/install.sh", []string{"pydantic-ai-slim[ag-ui]==2.68.0", "agent-framework-ag-ui==1.7.0"}, "`make guards`, [guards](../../sink/guard/README.md)",
		[]string{"sink/guard/python/weir_guard/grants.py", "sink/guard/python/weir_guard/pydantic_ai.py", "sink/guard/python/weir_guard/agent_framework.py"}},
}

// schemas are what formats without a recording were compared with, member by member.
var schemas = map[string]string{
	"cursor": "the types of @cursor/sdk 1.0.32 (npm), whose JsonlLocalAgentStore wrote the record around a message, and the models of cursor-agent's lines in harbor 0.26.0 (PyPI)",
}

// recordedRow is what there is of one format by one program.
type recordedRow struct {
	format, program, folder    string
	files, tools, hops         int
	stopped, warned, unflagged int
}

// writers returns the programs of the recordings, by the section of their page and the folder.
func writers(t *testing.T) []map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/real/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, section := range strings.Split(string(text), "\n| folder | written by |")[1:] {
		of := map[string]string{}
		for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9_]+)[^|]*\| ([^|]+) \|$`).FindAllStringSubmatch(section, -1) {
			program, _, _ := strings.Cut(row[2], ": ")
			program, _, _ = strings.Cut(program, "; ")
			program, _, _ = strings.Cut(program, ", with a scripted model")
			program, _, _ = strings.Cut(program, ", in the same runs")
			of[row[1]] = strings.TrimSpace(program)
		}
		out = append(out, of)
	}
	return out
}

// TestRecorded holds the page to the recordings by real programs: what is in them, what weir makes of them, and
// how much code reads their formats.
func TestRecorded(t *testing.T) {
	var rows []*recordedRow
	note := func(programs map[string]string, format, file string, got *told) {
		folder, _, _ := strings.Cut(file, "/")
		program := programs[folder]
		if program == "" {
			t.Errorf("testdata/real/README.md does not say what wrote %s", file)
		}
		i := slices.IndexFunc(rows, func(r *recordedRow) bool { return r.format == format && r.folder == folder })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &recordedRow{format: format, program: program, folder: folder})
		}
		r := rows[i]
		r.files, r.tools, r.hops = r.files+1, r.tools+len(got.tools), r.hops+len(got.hops)
		switch order, _ := judge(got); {
		case strings.HasPrefix(order, "deny"), strings.HasPrefix(order, "halt"):
			r.stopped++
		case order != "":
			r.warned++
		default:
			r.unflagged++
		}
	}
	by := writers(t)
	for _, want := range truths {
		note(by[0], "otlp", want.file, hear(t, bytes.NewReader(unpacked(t, want.file+".jsonl")), adapter.Options{}))
	}
	for _, want := range logTruths {
		note(by[1], want.format, want.file, hear(t, bytes.NewReader(logged(t, want.file)), adapter.Options{}))
	}
	for _, want := range tracerTruths {
		note(by[2], want.format, want.file, hear(t, bytes.NewReader(unpacked(t, want.file)), adapter.Options{}))
	}
	slices.SortStableFunc(rows, func(a, b *recordedRow) int { return cmp.Compare(a.format, b.format) })
	page := recordedText(t, rows)
	if *update {
		if err := os.WriteFile(recordedPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(recordedPage)
	if err != nil || !bytes.Equal(withoutLines(was), withoutLines(page)) {
		t.Fatalf("%s is not up to date (%v); run the tests with -update", recordedPage, err)
	}
	// A change of a few lines elsewhere need not change the page.
	has, want := lastColumn.FindAllSubmatch(was, -1), lastColumn.FindAllSubmatch(page, -1)
	for i := range want {
		said, _ := strconv.Atoi(string(has[i][1]))
		if is, _ := strconv.Atoi(string(want[i][1])); 5*max(said-is, is-said) > is {
			t.Errorf("%s says %d lines where there are %d; run the tests with -update", recordedPage, said, is)
		}
	}
}

// lastColumn is a number at the end of a row.
var lastColumn = regexp.MustCompile(`(?m)\| (\d+) \|$`)

// withoutLines is the page without the numbers of lines.
func withoutLines(page []byte) []byte { return lastColumn.ReplaceAll(page, []byte("| N |")) }

// recordedText writes the page.
func recordedText(t *testing.T, rows []*recordedRow) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("# What was tried with real programs\n\nA test writes this page (`go test ./events/adapter -run TestRecorded -update`). It counts what it reads; the numbers of lines may be a fifth old.\n\n" +
		"## Logs\n\nEach recording was written by the real program, in a run with a scripted model: [testdata/real](testdata/real/README.md). Loops and honest runs are both there. " +
		"The default limits judge each: *stopped* has an order, *warned* a warning, *not flagged* none. The last column counts the lines of Go that read the format, without comments and tests.\n\n" +
		"| format | program and version | recordings | tool calls | hops | stopped | warned | not flagged | lines |\n|---|---|---|---|---|---|---|---|---|\n")
	have := map[string]bool{}
	for _, r := range rows {
		have[r.format] = true
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %d | %d | %d | %d | %d |\n", r.format, r.program, r.files, r.tools, r.hops, r.stopped, r.warned, r.unflagged, linesOfFormat(t, r.format))
	}
	b.WriteString("\nOf these formats no recording by the program itself is kept. Their samples are in [testdata/golden](testdata/golden):\n\n| format | what it is | compared with | lines |\n|---|---|---|---|\n")
	for _, f := range registry.Formats() {
		if !have[f.Name] && f.Name != "canonical" && f.Name != "trace" && f.Name != "cloudevents" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %d |\n", f.Name, f.Title, schemas[f.Name], linesOfFormat(t, f.Name))
		}
	}
	b.WriteString("\nNot read: the system log table of Confluent's streaming agents. Its page documents the columns, and not what `data` holds.\n")
	b.WriteString("\n## Surfaces\n\nThe real programs ask weir at these places. The page in the third column has the figures: calls asked for, run and refused.\n\n| surface | programs | tried by | lines |\n|---|---|---|---|\n")
	for _, s := range surfaces {
		installed, err := os.ReadFile(filepath.Join("../..", s.installed))
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range s.programs {
			if !bytes.Contains(installed, []byte(program)) {
				t.Errorf("%s does not install %s", s.installed, program)
			}
		}
		n := 0
		for _, pattern := range s.code {
			n += linesOf(t, filepath.Join("../..", pattern))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", s.name, strings.Join(s.programs, ", "), s.tried, n)
	}
	return b.Bytes()
}

// linesOf counts the lines of the files that a pattern names: of Go those with code, of other languages those
// that are not empty.
func linesOf(t *testing.T, pattern string) (n int) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s names no file (%v)", pattern, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file) == ".go" {
			n += linesBetween(text, 0, 1<<30)
			continue
		}
		for line := range bytes.Lines(text) {
			if len(bytes.TrimSpace(line)) > 0 {
				n++
			}
		}
	}
	return n
}

// linesBetween counts the lines with code of a file of Go, within two lines.
func linesBetween(text []byte, first, last int) int {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if line := file.Line(pos); line >= first && line <= last {
			lines[line] = true
		}
	}
}

// linesOfFormat counts what reads a format: its package, or its dialect of chat.
func linesOfFormat(t *testing.T, format string) int {
	t.Helper()
	files, _ := filepath.Glob("chat/*.go")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		var found *ast.FuncDecl
		dialects := 0
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Type.Results == nil || fn.Recv != nil {
				continue
			}
			if star, ok := fn.Type.Results.List[0].Type.(*ast.StarExpr); !ok || fmt.Sprint(star.X) != "dialect" {
				continue
			}
			dialects++
			if bytes.Contains(text[fn.Pos()-1:fn.End()-1], []byte(`name: "`+format+`"`)) {
				found = fn
			}
		}
		switch {
		case found == nil:
		case dialects == 1:
			return linesBetween(text, 0, 1<<30)
		default:
			return linesBetween(text, set.Position(found.Pos()).Line, set.Position(found.End()).Line)
		}
	}
	return linesOf(t, format+"/*.go")
}
