package analyzer_test

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/standing"
	"weir/events"
)

// The files that the tables of rules give.
const (
	reasonsFile   = "../events/reasons.go"
	verdictSchema = "../schemas/verdict.v1.json"
)

// TestReasonsAreGenerated holds that the list of reason codes is the one of the tables.
// The tables import the package that holds the list, so it is written from here.
func TestReasonsAreGenerated(t *testing.T) {
	reasons := tableReasons()
	same(t, reasonsFile, reasonsSource(t, reasons))
	schema, err := os.ReadFile(verdictSchema)
	if err != nil {
		t.Fatal(err)
	}
	same(t, verdictSchema, withReasons(t, schema, reasons))
}

func same(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the tables of rules give (%v): run go generate ./analyzer", file, err)
	}
}

// tableReasons lists the reasons of the rows, each once, then those of no row.
func tableReasons() (out []events.Reason) {
	for _, r := range analyzer.Rows() {
		if !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	return append(out, agents.RescueRefused, standing.Allowed)
}

func reasonsSource(t *testing.T, reasons []events.Reason) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteString("// Code generated from the tables of rules by go generate ./analyzer; DO NOT EDIT.\n\npackage events\n\n// The reason codes.\nconst (\n")
	for _, r := range reasons {
		fmt.Fprintf(&b, "%s Reason = %q\n", goName(r), r)
	}
	b.WriteString(")\n\n// reasons lists all reason codes. Their places are not permanent.\nvar reasons = [...]Reason{\n")
	for _, r := range reasons {
		fmt.Fprintf(&b, "%s,\n", goName(r))
	}
	b.WriteString("}\n")
	out, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goName is what a reason is called in Go: without the words that say nothing.
func goName(r events.Reason) string {
	if r == "operator_stop" {
		return "OperatorStopped" // the other name is that of a kind of event
	}
	code := strings.TrimPrefix(string(r), "a2a_")
	code = strings.TrimSuffix(strings.TrimSuffix(code, "_exceeded"), "_detected")
	var name strings.Builder
	for _, word := range strings.Split(code, "_") {
		if word == "id" {
			word = "ID"
		}
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

var schemaReasons = regexp.MustCompile(`(?s)("reason_code": \{.*?"examples": \[\n)(.*?)(\n      \])`)

func withReasons(t *testing.T, schema []byte, reasons []events.Reason) []byte {
	t.Helper()
	if !schemaReasons.Match(schema) {
		t.Fatalf("%s has no examples of reason codes", verdictSchema)
	}
	var lines []string
	line := "       "
	for i, r := range reasons {
		word := fmt.Sprintf(" %q", r)
		if i < len(reasons)-1 {
			word += ","
		}
		if len(line)+len(word) > 118 {
			lines, line = append(lines, line), "       "
		}
		line += word
	}
	return schemaReasons.ReplaceAll(schema, []byte("${1}"+strings.Join(append(lines, line), "\n")+"${3}"))
}
