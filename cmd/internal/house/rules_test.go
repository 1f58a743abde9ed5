package house

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/analyzer"
)

// tables are the files in which rules may be named: the tables, the measures, and what is
// generated from the tables.
var tables = []string{"analyzer/rules.go", "analyzer/agents/rules.go", "analyzer/measure.go", "events/reasons.go"}

// ownNames are the files that may name some rules or reasons all the same, and why. None
// of them has to know a new rule.
var ownNames = map[string]string{
	"analyzer/limitfile/import.go":      "the settings of another system are called so",
	"analyzer/limitfile/framework.go":   "the settings of frameworks are called so",
	"sink/guard/limiter.go":             "the limits of a guard that hears nothing of weir",
	"sink/guard/follow.go":              "it reads those limits, and keeps room for the stops of an operator",
	"sink/guard/match.go":               "orders of old servers that do not say whose calls they are about",
	"events/byhand/order.go":            "orders by hand of all scopes have the reason of those about one flow",
	"sink/check/denyformat.go":          "another system's sentence",
	"cmd/internal/selftest/prober.go":   "the loop that it makes",
	"cmd/weir/agents.go":                "an exit code",
	"sink/prom/verdicts.go":             "a reason of no row",
	"events/adapter/polling/subject.go": "an argument of a tool is called so",
}

// TestNoFileNamesARule holds that a new rule is a row, a measure and its cases: what is
// said, shown and needed of it stands in the table.
func TestNoFileNamesARule(t *testing.T) {
	words := map[string]bool{}
	for _, r := range analyzer.Rows() {
		words[r.Name], words[string(r.Reason)] = true, true
	}
	reasons := map[string]bool{}
	sources(t, func(_, path string, _ *token.FileSet, file *ast.File) {
		if where(t, path) == "events/reasons.go" {
			for name := range file.Scope.Objects {
				reasons[name] = true
			}
		}
	})
	delete(reasons, "reasons")
	if len(reasons) < 30 {
		t.Fatalf("found %d reasons", len(reasons))
	}
	used := map[string]bool{}
	sources(t, func(folder, path string, set *token.FileSet, file *ast.File) {
		at := where(t, path)
		if slices.Contains(tables, at) || strings.HasSuffix(folder, "test") && folder != "cmd/internal/selftest" { // helpers of tests are tests
			return
		}
		found := func(pos token.Pos, name string) {
			if used[at] = true; ownNames[at] == "" {
				t.Errorf("%s:%d names the rule or reason %s: put what it wants to know into the row", at, set.Position(pos).Line, name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // the names of fields in JSON
				if n.Tag != nil {
					return false
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && (x.Name == "events" && reasons[n.Sel.Name] || (x.Name == "analyzer" || x.Name == "agents") && isRule(n.Sel.Name)) {
					found(n.Pos(), n.Sel.Name)
				}
			case *ast.Ident:
				if (folder == "analyzer" || folder == "analyzer/agents") && isRule(n.Name) {
					found(n.Pos(), n.Name)
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Contains(s, "_") && words[s] {
					found(n.Pos(), s)
				}
			}
			return true
		})
	})
	for at := range ownNames {
		if !used[at] {
			t.Errorf("%s names no rule any more: take it out of the list", at)
		}
	}
}

func where(t *testing.T, path string) string {
	t.Helper()
	at, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(at)
}

// isRule reports whether the name is that of a row's number, and not of a type.
func isRule(name string) bool {
	short, _ := strings.CutPrefix(name, "Rule")
	switch short {
	case "", name, "s", "ID", "Count", "Set", "Named":
		return false
	}
	return strings.ToUpper(short[:1]) == short[:1]
}
