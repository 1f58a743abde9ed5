package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../../.."

// module is the path of the module, which make rename changes.
var module = func() string {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		panic(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimPrefix(first, "module ")
}()

// law says what the packages in one folder may import beside the standard library,
// and what they may not: of the standard library, or below what they may. The longest matching folder
// counts. Tests may import what they like.
type law struct {
	folder string
	may    []string
	not    []string
}

var (
	noIO  = []string{"os", "net", "log", "sync", "context", "math/rand", "syscall", "io/fs"}
	fold  = []string{"weir/events", "github.com/cespare/xxhash/v2"}
	store = "github.com/dgraph-io/badger/v4"
	yaml  = "go.yaml.in/yaml/v4"

	// What a log backend is made of: neither knows the other, nor who serves requests.
	backend = []string{"weir/analyzer", "weir/state", "weir/sink/prom", "weir/cmd/internal/clock", "weir/cmd/internal/phase",
		"weir/cmd/internal/problem", "weir/cmd/internal/pump", "weir/cmd/internal/retry"}
)

var laws = []law{
	{folder: "events", may: []string{"weir/events/jsontext"}, not: noIO},
	{folder: "events/jsontext", not: noIO},
	{folder: "events/a2aflow", may: []string{"weir/events"}, not: noIO},
	{folder: "events/byhand", may: fold, not: noIO},
	{folder: "events/fingerprint", may: fold, not: noIO},
	{folder: "events/adapter", may: append([]string{"weir/events/fingerprint", "weir/events/adapter", "github.com/klauspost/compress"}, fold...), not: []string{"os", "net", "log", "math/rand", "syscall"}},
	{folder: "events/adapter/mapped", may: append([]string{"weir/events/fingerprint", "weir/events/adapter", "github.com/itchyny/gojq"}, fold...), not: []string{"os", "net", "log", "math/rand", "syscall"}},
	{folder: "events/adapter/cloudevents", may: append([]string{"weir/events/adapter", "weir/events/envelope"}, fold...), not: []string{"os", "net", "log", "math/rand", "syscall"}},
	{folder: "events/envelope", may: []string{"weir/events", "weir/events/adapter", "google.golang.org/protobuf"}, not: append([]string{"weir/events/kafka"}, noIO...)},
	{folder: "events/jsonl", may: []string{"weir/events", "weir/events/adapter", "github.com/cespare/xxhash/v2"}, not: []string{"net"}},
	{folder: "events/kafka", may: []string{"weir/events", "weir/events/rawconn", "github.com/segmentio/kafka-go", "github.com/klauspost/compress", "golang.org/x/oauth2"}},
	{folder: "events/kafka/schemaregistry", may: []string{"weir/events/kafka/recordbatch", "github.com/linkedin/goavro", "github.com/bufbuild/protocompile", "google.golang.org/protobuf", "golang.org/x/sync"}},
	{folder: "events/kafka/mskiam", may: []string{"github.com/segmentio/kafka-go", "github.com/aws/aws-sdk-go-v2"}},
	{folder: "events/rawconn"},
	{folder: "analyzer", may: append([]string{"weir/analyzer/activity", "weir/analyzer/agents", "weir/analyzer/budgets", "weir/analyzer/forecast", "weir/analyzer/ledger", "weir/analyzer/prices", "weir/analyzer/record", "weir/analyzer/rules", "weir/analyzer/standing"}, fold...), not: noIO},
	{folder: "analyzer/activity", may: append([]string{"weir/analyzer/ledger"}, fold...), not: noIO},
	{folder: "analyzer/agents", may: append([]string{"weir/analyzer/activity", "weir/analyzer/budgets", "weir/analyzer/ledger", "weir/analyzer/record", "weir/analyzer/rules", "weir/analyzer/standing"}, fold...), not: noIO},
	{folder: "analyzer/budgets", may: append([]string{"weir/analyzer/record", "weir/analyzer/rules"}, fold...), not: noIO},
	{folder: "analyzer/prices", may: []string{"weir/events"}, not: noIO},
	{folder: "analyzer/forecast", may: []string{"weir/events", "weir/analyzer/rules"}, not: noIO},
	{folder: "analyzer/record", may: []string{"weir/events"}, not: noIO},
	{folder: "analyzer/rules", may: []string{"weir/events", "github.com/cespare/xxhash/v2"}, not: noIO},
	{folder: "analyzer/standing", may: append([]string{"weir/analyzer/rules"}, fold...), not: noIO},
	{folder: "analyzer/reports", may: []string{"weir/analyzer", "github.com/cespare/xxhash/v2"}, not: noIO},
	{folder: "analyzer/ledger", may: []string{"weir/events", "weir/analyzer/record"}, not: noIO},
	{folder: "analyzer/coverage", may: append([]string{"weir/analyzer"}, fold...), not: noIO},
	{folder: "analyzer/spelling", not: noIO},
	{folder: "analyzer/strictyaml", may: []string{yaml}, not: noIO},
	{folder: "analyzer/limitfile", may: append([]string{"weir/analyzer", yaml}, fold...), not: []string{"net", "os", "sync", "math/rand"}},
	{folder: "analyzer/scenario", may: append([]string{"weir/analyzer", "weir/analyzer/limitfile", "weir/analyzer/reports", "weir/events/fingerprint"}, fold...), not: []string{"net", "os"}},
	{folder: "state", may: []string{"weir/events", "weir/analyzer", "weir/state/wal", "weir/state/mark", store, "golang.org/x/sys"}, not: []string{"net"}},
	{folder: "state/wal", may: []string{"github.com/cespare/xxhash/v2"}, not: []string{"net"}},
	{folder: "state/mark", not: []string{"net"}},
	{folder: "schemas", may: nil, not: []string{"net", "os"}},
	{folder: "sink/kafka", may: []string{"weir/events", "weir/sink/sign", "github.com/segmentio/kafka-go"}},
	{folder: "sink/jsonl", may: []string{"weir/events"}, not: []string{"net"}},
	{folder: "sink/sign", not: []string{"net", "weir/events"}},
	{folder: "sink/recipient", not: []string{"os", "weir/events"}},
	{folder: "sink/otlp", may: []string{"weir/events", "weir/analyzer", "weir/sink/recipient"}},
	{folder: "sink/webhook", may: []string{"weir/events", "weir/sink/recipient", "weir/sink/sign"}},
	{folder: "sink/guard", may: []string{"weir/events", "weir/sink/sign"}},
	{folder: "sink/guard/cancel", not: []string{"os", "weir/events"}},
	{folder: "sink/guard/guarded", may: []string{"weir/events", "weir/events/fingerprint", "weir/sink/guard"}},
	{folder: "sink/guard/kafkaguard", may: []string{"weir/events/byhand", "weir/events/kafka", "weir/sink/guard", "weir/sink/sign"}},
	{folder: "sink/prom", may: []string{"weir/events", "weir/analyzer", "github.com/prometheus/client_golang"}},
	{folder: "sink/prom/guardprom", may: []string{"weir/sink/guard", "github.com/prometheus/client_golang"}},
	// The hook of an agent starts with each use of a tool: what it imports is waited for.
	{folder: "cmd/internal/hook", may: []string{"weir/events/adapter", "weir/sink/check"}, not: []string{"weir/sink/check/gateways"}},
	{folder: "cmd/weir-hook", may: []string{"weir/cmd/internal/certificates", "weir/cmd/internal/hook"}},
	{folder: "cmd/internal/hooksettings", may: []string{"github.com/tailscale/hujson"}, not: []string{"net", "os"}},
	{folder: "sink/inspect", may: []string{"weir/events", "weir/analyzer"}, not: []string{"os", "net/rpc"}},
	{folder: "sink/inspect/browser", may: []string{module, "github.com/chromedp"}},
	{folder: "cmd/internal/tools/dashboards", may: []string{"github.com/grafana/grafana-foundation-sdk/go"}, not: []string{"net"}},
	{folder: "sink/check", may: []string{"weir/events", "weir/analyzer", "google.golang.org/protobuf/encoding/protowire"}},
	{folder: "cmd/internal/api", may: []string{"weir/events", "weir/analyzer", "weir/state", "weir/sink/check", "weir/sink/inspect", "weir/sink/prom", "weir/sink/sign", "weir/cmd/internal/access", "weir/cmd/internal/admission", "weir/cmd/internal/approvals", "weir/cmd/internal/ask", "weir/cmd/internal/backtest", "weir/cmd/internal/certificates", "weir/cmd/internal/costs", "weir/cmd/internal/logs",
		"weir/cmd/internal/budget", "weir/cmd/internal/clock", "weir/cmd/internal/gate", "weir/cmd/internal/intake", "weir/cmd/internal/limits", "weir/cmd/internal/orders", "weir/cmd/internal/peer", "weir/cmd/internal/plainhttp", "weir/cmd/internal/problem", "weir/cmd/internal/pump",
		"weir/cmd/internal/selftest", "weir/schemas", "github.com/cespare/xxhash/v2"}, not: []string{"os", "weir/events/kafka"}},
	{folder: "cmd/internal/ask", may: []string{"weir/events", "weir/analyzer", "weir/state", "weir/sink/check", "weir/sink/guard", "weir/cmd/internal/clock", "github.com/cespare/xxhash/v2"}, not: []string{"os", "weir/events/kafka"}},
	{folder: "cmd/internal/backtest", may: []string{"github.com/dustin/go-humanize", "weir/analyzer", "weir/events", "weir/cmd/internal/costs", "weir/cmd/internal/pump"}, not: []string{"net"}},
	{folder: "cmd/internal/costs", may: []string{"github.com/dustin/go-humanize", "weir/events", "weir/analyzer/prices"}, not: []string{"net"}},
	{folder: "cmd/internal/logs", may: []string{"weir/events"}, not: []string{"net"}},
	{folder: "cmd/internal/clock", not: []string{"net", "os"}},
	{folder: "cmd/internal/selftest", may: []string{"weir/events", "weir/analyzer", "weir/state", "weir/sink/prom", "weir/cmd/internal/clock", "weir/cmd/internal/retry"}, not: []string{"net", "os", "weir/events/kafka"}},
	{folder: "cmd/internal/budget", may: []string{"golang.org/x/sync"}, not: []string{"net", "os"}},
	{folder: "cmd/internal/intake", may: []string{"golang.org/x/sync/semaphore", "weir/events", "weir/analyzer", "weir/state", "weir/cmd/internal/clock", "weir/cmd/internal/filewatch", "weir/cmd/internal/gate", "weir/cmd/internal/intake/spool", "weir/cmd/internal/phase",
		"weir/cmd/internal/problem", "weir/cmd/internal/pump", "weir/cmd/internal/retry", "weir/sink/prom"}, not: []string{"weir/events/kafka"}},
	{folder: "cmd/internal/intake/spool", may: []string{"weir/state/mark"}, not: []string{"net"}},
	{folder: "cmd/internal/limits", may: []string{"weir/events", "weir/analyzer", "weir/state", "weir/cmd/internal/clock", "weir/cmd/internal/costs", "weir/cmd/internal/filewatch"}, not: []string{"net", "weir/events/kafka"}},
	{folder: "cmd/internal/forwarder", may: []string{"weir/state", "weir/sink/jsonl", "weir/sink/otlp", "weir/sink/webhook", "weir/cmd/internal/clock", "weir/cmd/internal/retry", "weir/cmd/internal/selftest", "github.com/cespare/xxhash/v2"}, not: []string{"net", "os"}},
	{folder: "cmd/internal/pump", may: append([]string{"weir/analyzer", "weir/analyzer/reports", "weir/events/fingerprint", "weir/state", "weir/sink/prom", "weir/cmd/internal/clock", "weir/cmd/internal/costs", "weir/cmd/internal/selftest"}, fold...),
		not: []string{"net", "os", "weir/events/kafka"}},
	{folder: "cmd/internal/gate/gatetest", may: []string{"weir/events", "weir/cmd/internal/gate"}, not: []string{"net", "os"}},
	{folder: "cmd/internal/pump/pumptest", may: []string{"weir/analyzer", "weir/events", "weir/state", "weir/cmd/internal/clock"}, not: []string{"net"}},
	{folder: "cmd/internal/phase", not: []string{"net", "os"}},
	{folder: "cmd/internal/problem", not: []string{"net", "os"}},
	{folder: "cmd/internal/retry", may: []string{"weir/state", "weir/cmd/internal/clock"}, not: []string{"net", "os"}},
	{folder: "cmd/internal/embedded", may: append(backend, "weir/events", "weir/sink/check"), not: []string{"os", "weir/events/kafka"}},
	{folder: "cmd/internal/orders", may: []string{"weir/events", "weir/state", "weir/sink/guard", "weir/cmd/internal/clock"}, not: []string{"net", "weir/events/kafka"}},
	{folder: "cmd/internal/switchfile", may: []string{"go.yaml.in/yaml/v4", "weir/analyzer/strictyaml", "weir/analyzer/spelling", "weir/events", "weir/sink/recipient"}},
	{folder: "cmd/internal/runtimes", may: []string{"weir/events", "weir/state", "weir/sink/recipient", "weir/sink/webhook", "weir/cmd/internal/orders", "weir/cmd/internal/switchfile"}, not: []string{"os"}},
	{folder: "cmd/internal/approvals", may: []string{"weir/events", "weir/analyzer", "weir/state", "weir/sink/recipient", "weir/sink/webhook", "weir/cmd/internal/clock", "weir/cmd/internal/orders", "weir/cmd/internal/retry", "weir/cmd/internal/switchfile", "github.com/cespare/xxhash/v2"}, not: []string{"os", "weir/events/kafka"}},
	{folder: "cmd/internal/peer", may: []string{"weir/events", "weir/sink/sign"}, not: []string{"os"}},
	{folder: "cmd/internal/group", may: append(backend, "weir/events/byhand", "weir/cmd/internal/peer", "weir/events", "weir/sink/kafka", "weir/sink/check", "github.com/segmentio/kafka-go"), not: []string{"os"}},
	{folder: "cmd/internal/tools/openapi", may: []string{module, "go.yaml.in/yaml/v4", "github.com/invopop/jsonschema", "github.com/pb33f"}},
	{folder: "cmd/internal/app/e2e", may: []string{module, "github.com/google/pprof", "github.com/twmb/franz-go"}},
	{folder: "cmd", may: []string{module, "go.yaml.in/yaml/v4", "github.com/cespare/xxhash/v2", "github.com/segmentio/kafka-go", "github.com/spf13", "golang.org/x/term", "github.com/dustin/go-humanize"}},
	{folder: "cmd/internal/app/budget", may: []string{"golang.org/x/sync/semaphore"}},
	{folder: "cmd/internal/mcpserver", may: []string{"weir/analyzer", "weir/events", "weir/cmd/internal/api", "weir/cmd/internal/backtest", "weir/cmd/internal/cli", "weir/cmd/internal/client", "weir/cmd/internal/logs",
		"weir/cmd/internal/pump", "github.com/modelcontextprotocol/go-sdk"}},
	{folder: "cmd/internal/admission", may: []string{"weir/events/rawconn"}},
	{folder: "cmd/internal/plainhttp"},
	{folder: "cmd/internal/access", may: []string{"weir/events/byhand", "weir/cmd/internal/filewatch", "weir/sink/sign", "weir/analyzer/strictyaml", "weir/analyzer/spelling", "go.yaml.in/yaml/v4"}},
	{folder: "cmd/internal/certificates", may: []string{"weir/cmd/internal/filewatch"}},
	{folder: "cmd/internal/filewatch", may: []string{"weir/cmd/internal/clock", "github.com/fsnotify/fsnotify"}, not: []string{"net"}},
}

func lawFor(folder string) (law, bool) {
	best, found := law{}, false
	for _, l := range laws {
		if (folder == l.folder || strings.HasPrefix(folder, l.folder+"/")) && len(l.folder) >= len(best.folder) {
			best, found = l, true
		}
	}
	return best, found
}

// sources calls fn for every Go file that is not a test, with its folder.
func sources(t *testing.T, fn func(folder, path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || path == filepath.Join(root, "bin") || strings.HasPrefix(name, ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(folder), path, set, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func within(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/")
	})
}

func TestImportLaw(t *testing.T) {
	sources(t, func(folder, path string, _ *token.FileSet, file *ast.File) {
		l, ok := lawFor(folder)
		if !ok {
			t.Errorf("%s: no law for this folder: say in %s who it may import", folder, "cmd/internal/house")
			return
		}
		for _, spec := range file.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(p, module+"/") || p == module
			std := !own && !strings.Contains(strings.SplitN(p, "/", 2)[0], ".")
			switch {
			case p != "net/url" && within(p, l.not): // net/url only parses
				t.Errorf("%s imports %s, which %s may not", path, p, l.folder)
			case !std && !within(p, l.may):
				t.Errorf("%s imports %s, which %s may not", path, p, l.folder)
			}
		}
	})
}

// TestPrintingIsQuoted holds commands to cli.Fprintf, by which texts of others stay on their line.
func TestPrintingIsQuoted(t *testing.T) {
	sources(t, func(folder, path string, set *token.FileSet, file *ast.File) {
		if !slices.Contains([]string{"cmd/weir", "cmd/internal/operate", "cmd/internal/demo"}, folder) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, _ := fun.X.(*ast.Ident)
			to, _ := call.Args[0].(*ast.SelectorExpr)
			if from != nil && from.Name == "fmt" && strings.HasPrefix(fun.Sel.Name, "Fprint") && to != nil && (to.Sel.Name == "Out" || to.Sel.Name == "Err") {
				t.Errorf("%s: print by cli.Fprintf", set.Position(call.Pos()))
			}
			return true
		})
	})
}

// foldPackages are the packages that verdicts come from.
var foldPackages = []string{"analyzer", "analyzer/activity", "analyzer/agents", "analyzer/budgets", "analyzer/forecast", "analyzer/ledger", "analyzer/prices", "analyzer/record", "analyzer/rules", "analyzer/standing"}

// TestPurity forbids in the fold what would make its answer depend on anything but
// the log.
func TestPurity(t *testing.T) {
	sources(t, func(folder, path string, set *token.FileSet, file *ast.File) {
		inFold := slices.Contains(foldPackages, folder)
		if !inFold && folder != "events" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			at := func() token.Position { return set.Position(n.Pos()) }
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in a pure package", at())
			case *ast.ChanType:
				t.Errorf("%s: a channel in a pure package", at())
			case *ast.MapType:
				if inFold {
					t.Errorf("%s: a map in the fold: its order is random", at())
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker"}, n.Sel.Name) {
					t.Errorf("%s: time.%s in a pure package: time comes with the event", at(), n.Sel.Name)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init: nothing happens at import", at())
				}
			}
			return true
		})
		_ = path
	})
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	sources(t, func(_, _ string, set *token.FileSet, file *ast.File) {
		if file.Name.Name == "main" {
			return
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
					t.Errorf("%s: %s has no comment", set.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: type %s has no comment", set.Position(ts.Pos()), ts.Name.Name)
					}
					if vs, ok := s.(*ast.ValueSpec); ok && vs.Names[0].IsExported() && d.Doc == nil && vs.Doc == nil && vs.Comment == nil {
						t.Errorf("%s: %s has no comment", set.Position(vs.Pos()), vs.Names[0].Name)
					}
				}
			}
		}
	})
}

func exportedReceiver(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if x, ok := t.(*ast.IndexExpr); ok {
		t = x.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// TestTopLevel holds the top level to what was asked for.
func TestTopLevel(t *testing.T) {
	want := []string{"go.mod", "go.sum", "cmd", "events", "analyzer", "state", "sink", "schemas", "docker-compose.yml", "Makefile", "README.md",
		"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "bin", ".ci", ".git", ".gitignore", ".golangci.yml", ".github", ".dockerignore", ".gitattributes", ".secrets"}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(want, e.Name()) {
			t.Errorf("%s stands at the top level: find its room below cmd, events, analyzer, state, sink or schemas", e.Name())
		}
	}
}

// TestNoBackendIsToldApart holds that whoever has a log backend asks it by its interface, and
// not whether it is the one on Kafka.
func TestNoBackendIsToldApart(t *testing.T) {
	of := map[string]bool{"embedded": true, "group": true}
	sources(t, func(folder, _ string, set *token.FileSet, file *ast.File) {
		if !strings.HasPrefix(folder, "cmd/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var types []ast.Expr
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				if x, ok := n.X.(*ast.SelectorExpr); ok && (x.Sel.Name == "backend" || x.Sel.Name == "log" || x.Sel.Name == "Log") {
					t.Errorf("%s: what a log backend can do more is asked by a type assertion: put it into the interface", set.Position(n.Pos()))
				}
				types = []ast.Expr{n.Type}
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					types = append(types, c.(*ast.CaseClause).List...)
				}
			}
			for _, typ := range types {
				if p, ok := typ.(*ast.StarExpr); ok {
					typ = p.X
				}
				if sel, ok := typ.(*ast.SelectorExpr); ok {
					if pkg, ok := sel.X.(*ast.Ident); ok && of[pkg.Name] {
						t.Errorf("%s: a log backend is told apart by its type %s.%s: put what is wanted into the interface", set.Position(n.Pos()), pkg.Name, sel.Sel.Name)
					}
				}
			}
			return true
		})
	})
}
