package limitfile_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files and the schema anew")

// golden runs a file of cases. A case is its input, a line ----, and the outcome; a
// line ==== ends it.
func golden(t *testing.T, name string, outcome func(input string) string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cases := strings.SplitAfter(string(data), "\n====\n")
	for _, c := range cases {
		if strings.TrimSpace(c) == "" {
			continue
		}
		input, want, found := strings.Cut(strings.TrimSuffix(c, "====\n"), "----\n")
		if !found {
			t.Fatalf("%s: a case without ----:\n%s", name, c)
		}
		got := outcome(input)
		if !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		out.WriteString(input + "----\n" + got + "====\n")
		if got != want && !*update {
			t.Errorf("%s:\n%s----\n%s, want\n%s", name, input, got, want)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
