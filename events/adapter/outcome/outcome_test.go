package outcome

import (
	"strings"
	"testing"

	"weir/events"
)

func some(n int64) events.Optional { return events.Optional{Set: true, Value: n} }

// The texts are what the programs print, as their documentation and their own tests show it.
func TestFigures(t *testing.T) {
	for name, c := range map[string]struct {
		said           string
		passed, failed events.Optional
	}{
		"pytest":                  {"FAILED a.py::test_x - assert 1 == 2\n=========== 2 failed, 3 passed, 1 warning in 0.12s ===========", some(3), some(2)},
		"pytest -q":               {"..F\n1 failed, 2 passed in 1.04s", some(2), some(1)},
		"pytest all well":         {"============== 12 passed in 3.01s ==============", some(12), some(0)},
		"pytest errors":           {"=== 1 failed, 2 passed, 1 skipped, 3 errors in 61.20s (0:01:01) ===", some(2), some(4)},
		"unittest":                {"F..\n----\nRan 12 tests in 0.003s\n\nFAILED (failures=1, errors=2)\n", some(9), some(3)},
		"unittest errors":         {"Ran 4 tests in 0.003s\n\nFAILED (errors=2)\n", some(2), some(2)},
		"unittest all well":       {"Ran 1 test in 0.000s\n\nOK\n", some(1), some(0)},
		"jest":                    {"Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 skipped, 2 passed, 4 total\nSnapshots:   0 total", some(2), some(1)},
		"jest all well":           {"Tests:       5 passed, 5 total", some(5), some(0)},
		"vitest":                  {" Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)\n", some(2), some(1)},
		"mocha":                   {"\n  3 passing (10ms)\n  1 failing\n\n  1) adds", some(3), some(1)},
		"cargo, two binaries":     {"test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored", some(4), some(2)},
		"maven":                   {"[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 0, Time elapsed: 0.1 s\n[INFO]\n[ERROR] Tests run: 9, Failures: 1, Errors: 1, Skipped: 0\n", some(7), some(2)},
		"gradle":                  {"12 tests completed, 2 failed\n\nFAILURE: Build failed", some(10), some(2)},
		"go, one of several":      {"--- FAIL: TestA (0.00s)\nFAIL\nexit status 1\nFAIL\texample.org/a\t0.004s", some(0), some(1)},
		"dotnet":                  {"Failed!  - Failed:     1, Passed:    11, Skipped:     0, Total:    12, Duration: 31 ms - P.dll (net8.0)", some(11), some(1)},
		"dotnet, two projects":    {"Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3, Duration: 31 ms\nFailed!  - Failed:     1, Passed:    11, Skipped:     0, Total:    12", some(14), some(1)},
		"dotnet, verbose":         {"Total tests: 12\n     Passed: 11\n     Failed: 1\n Total time: 1.2 Seconds", some(11), some(1)},
		"phpunit":                 {"Time: 00:00.031, Memory: 8.00 MB\n\nFAILURES!\nTests: 12, Assertions: 20, Failures: 1.", some(11), some(1)},
		"phpunit, errors":         {"ERRORS!\nTests: 12, Assertions: 20, Errors: 2, Failures: 1.", some(9), some(3)},
		"phpunit, all well":       {"OK (12 tests, 20 assertions)", some(12), some(0)},
		"node":                    {"# tests 12\n# suites 0\n# pass 11\n# fail 1\n# cancelled 0\n# duration_ms 31.2", some(11), some(1)},
		"node, spec":              {"\u2139 tests 12\n\u2139 suites 0\n\u2139 pass 11\n\u2139 fail 1", some(11), some(1)},
		"mix":                     {"Finished in 0.03 seconds\n12 tests, 1 failure", some(11), some(1)},
		"minitest":                {"12 runs, 20 assertions, 1 failures, 1 errors, 0 skips", some(10), some(2)},
		"bun":                     {" 11 pass\n 1 fail\n 20 expect() calls\nRan 12 tests across 1 files. [31.00ms]", some(11), some(1)},
		"deno":                    {"FAILED | 11 passed | 1 failed (31ms)", some(11), some(1)},
		"swift":                   {"Executed 12 tests, with 1 failure (0 unexpected) in 0.031 (0.032) seconds", some(11), some(1)},
		"ctest":                   {"92% tests passed, 1 tests failed out of 12\n\nTotal Test time (real) =   0.31 sec", some(11), some(1)},
		"playwright":              {"  1 failed\n    a.spec.ts:3:1 > a\n  1 skipped\n  11 passed (2.1s)", some(11), some(1)},
		"gradle, all well":        {"BUILD SUCCESSFUL in 2s", events.Optional{}, events.Optional{}},
		"in a frame":              {"Command: pytest\nDirectory: (root)\nOutput: 1 failed, 2 passed in 0.31s\nError: (none)\nExit Code: 1\nSignal: 0", some(2), some(1)},
		"in JSON":                 {`{"stdout":"F..\n1 failed, 2 passed in 0.31s\n","stderr":""}`, some(2), some(1)},
		"rspec":                   {"12 examples, 2 failures, 1 pending", some(10), some(2)},
		"go":                      {"--- FAIL: TestA (0.00s)\n    a_test.go:7: no\nFAIL\nFAIL\texample.org/a\t0.004s\nok  \texample.org/b\t0.010s\n", some(1), some(1)},
		"go, all well":            {"ok  \texample.org/a\t0.004s\nok  \texample.org/b\t(cached)\n", some(2), some(0)},
		"no tests":                {"2 failed attempts in the log; passed on to the next", events.Optional{}, events.Optional{}},
		"words that look like it": {"Everything passed in 3 minutes\nTests are in tests/", events.Optional{}, events.Optional{}},
	} {
		if s := Read([]byte(c.said)); s.passed != c.passed || s.failed != c.failed {
			t.Errorf("%s: passed %v failed %v, want %v and %v", name, s.passed, s.failed, c.passed, c.failed)
		}
	}
}

func TestExitCode(t *testing.T) {
	for said, want := range map[string]events.Optional{
		"Exit code 1\nmake: *** [all] Error 2":                                some(1),
		"<returncode>127</returncode>\n<output>\nbash: x: not found</output>": some(127),
		"out\nProcess exited with code 0":                                     some(0),
		`{"output":"x","metadata":{"exit_code":3}}`:                           some(3),
		"It exits with code when done":                                        {},
		"":                                                                    {},
	} {
		if got := Read([]byte(said)).exit; got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}

func TestCommandEffect(t *testing.T) {
	for want, commands := range map[events.Effect][]string{
		events.EffectRead: {"ls -la", "cd src && grep -rn 'a > b' . | head -5", "find . -name '*.go' 2>/dev/null", "git status", "cat a.txt; wc -l a.txt", "sed -n 1,5p a.go"},
		events.EffectChanged: {"sed -i 's/a/b/' x.go", "cat > x.py <<'EOF'\nprint('rm')\nEOF", "cd src && mkdir -p a", "echo hi >> log.txt", "git checkout -- x.go", "LANG=C sudo cp a b",
			"npx prettier --write src/a.ts", "gofmt -w a.go", "ruff check --fix .", "cd a && python3 - <<'EOF'\nopen('x','w').write('y')\nEOF", "node -e \"fs.writeFileSync('a','b')\"",
			"python3 -c \"from pathlib import Path; Path('a').write_text('b')\"", "apply_patch <<'EOF'\n*** Begin Patch\nEOF", "ed -s a"},
		events.EffectUnset: {"go test ./...", "python run.py", "ls && make", "find . -exec touch {} ;", "git fetch", "awk '$1 => 2' f", "", "node -e 'x => 1'", "python3 -c 'print(1)'", "python3 write.py 'w'", strings.Repeat("> ", 1<<19)}, // in linear time
	} {
		for _, c := range commands {
			if got, _ := commandEffect([]byte(c)); got != want {
				t.Errorf("%q: %v, want %v", c, got, want)
			}
		}
	}
}

func TestSet(t *testing.T) {
	for name, c := range map[string]struct {
		tool, args, said string
		status           events.Status
		want             *events.Outcome
	}{
		"an edit":                   {"Edit", `{"file_path":"/error.go","old_string":"a","new_string":"b"}`, "The file /error.go has been updated.", events.StatusOK, &events.Outcome{Effect: events.EffectChanged}},
		"an edit that was refused":  {"str_replace_editor", `{"command":"str_replace","path":"/a"}`, "No replacement was performed, old_str did not appear verbatim in /a.", events.StatusOK, &events.Outcome{Effect: events.EffectRejected}},
		"a write":                   {"Write", `{"file_path":"/a","content":"x"}`, "File created", events.StatusOK, &events.Outcome{Effect: events.EffectChanged, State: State("/a", []byte("x"))}},
		"a view of an editor":       {"str_replace_editor", `{"command":"view","path":"/a"}`, "1\tx", events.StatusOK, nil},
		"a silent write of a shell": {"Bash", `{"command":"sed -i s/a/b/ x"}`, "", events.StatusOK, &events.Outcome{Effect: events.EffectChanged}},
		"one that prints":           {"Bash", `{"command":"make > log; tail -1 log"}`, "done 3", events.StatusOK, nil},
		"one that tests as well":    {"Bash", `{"command":"cat > a <<'EOF'\nx\nEOF\npytest -q"}`, "1 failed, 2 passed in 0.3s", events.StatusOK, &events.Outcome{Passed: some(2), Failed: some(1)}},
		"one that says so":          {"Bash", `{"command":"echo x >> a && echo ok"}`, "ok", events.StatusOK, &events.Outcome{Effect: events.EffectChanged}},
		"a patch by a shell":        {"shell", `{"command":["apply_patch","*** Begin Patch"]}`, "Success. Updated the following files:\nM a", events.StatusOK, &events.Outcome{Effect: events.EffectChanged}},
		"a look of a shell":         {"Bash", `{"command":"grep -rn x ."}`, "", events.StatusOK, &events.Outcome{Effect: events.EffectRead}},
		"a log with tests in it":    {"Bash", `{"command":"cat log"}`, "2 failed, 1 passed in 0.1s", events.StatusOK, &events.Outcome{Effect: events.EffectRead}},
		"tests":                     {"Bash", `{"command":"pytest -q"}`, "Exit code 1\n2 failed, 1 passed in 0.1s", events.StatusError, &events.Outcome{Exit: some(1), Passed: some(1), Failed: some(2)}},
		"a call elsewhere":          {"create_event", `{"title":"x"}`, "already exists", events.StatusOK, nil},
	} {
		e := events.Event{Status: c.status}
		if c.said == "" {
			e.Content = events.EmptyContent
		}
		Set(&e, Of(c.tool, []byte(c.args)), Read([]byte(c.said)))
		switch got := e.Tool.Outcome; {
		case (got == nil) != (c.want == nil):
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		case got != nil && *got != *c.want:
			t.Errorf("%s: %+v, want %+v", name, *got, *c.want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for said, want := range map[string]bool{
		"String to replace not found in file.\nString: foo":                   true,
		"No changes to make: old_string and new_string are exactly the same.": true,
		"Error: oldString not found in content":                               true,
		"Found 3 matches of the string to replace, but replace_all is false.": true,
		"0 replacements made":                                             true,
		"Hunk #1 FAILED at 12.":                                           true,
		"The old text does not exist in the file":                         true,
		"Edit failed: search block did not match":                         true,
		"File has not been read yet. Read it first before writing to it.": true,
		"error: patch failed: a.go:3":                                     true,
		"SEARCH block not found":                                          true,
		"edit skipped: no diff":                                           true,
		"Unable to apply edit":                                            true,
		"The file was not modified":                                       true,
		`{"success":false,"message":"text missing"}`:                      true,
		`{"ok": false}`:                                                   true,
		`{"applied":0}`:                                                   true,
		`{"status":"error","message":"x"}`:                                true,
		"":                                                                false,
		"ok":                                                              false,
		"Done!":                                                           false,
		"The file /src/not-found.ts has been updated.":                    false,
		"The file /srv/missing.go has been updated successfully.":                           false,
		"Successfully created and wrote to new file: /a.py.":                                false,
		"Edit applied. No diagnostics.":                                                     false,
		"File created successfully at: /a/no match.txt":                                     false,
		"Successfully modified file: /a (1 replacements).":                                  false,
		"Success. Updated the following files:\nM invalid.go":                               false,
		`{"success":true,"message":"File written"}`:                                         false,
		`{"filePath":"/a.py","oldString":"x","newString":"return false"}`:                   false,
		"The file /a.py has been updated. Here is the snippet:\n1\treturn not x\n2\tfail()": false,
		"diff --git a/x b/x\n-a\n+b":                                                        false,
	} {
		if got := refuses([]byte(said)); got != want {
			t.Errorf("%q: %v", said, got)
		}
	}
}
