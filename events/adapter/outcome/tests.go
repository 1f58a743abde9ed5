package outcome

import (
	"bytes"
	"regexp"

	"weir/events"
)

// summary is how a test program states its figures. Each expression has the groups passed, failed
// or total, as far as the program states them; those named failed2 are added to failed.
type summary struct {
	words []byte // that a result has where the expression can match, which is quick to find
	expr  *regexp.Regexp
	sum   bool // it has a line for each package, which are added; else the last counts
}

var summaries = []summary{
	// pytest: "==== 2 failed, 3 passed, 1 error in 0.12s ====", and without the frame with -q.
	{words: []byte(" in "), expr: regexp.MustCompile(`(?m)^=* ?(?:(?P<failed>\d+) failed)?(?:, )?(?:(?P<passed>\d+) passed)?(?:, \d+ (?:skipped|deselected|xfailed|xpassed|warnings?))*(?:, )?(?:(?P<failed2>\d+) errors?)? in [\d.:]+ ?s`)},
	// unittest: "Ran 12 tests in 0.003s", then OK or "FAILED (failures=1, errors=2)".
	{words: []byte("Ran "), expr: regexp.MustCompile(`(?m)^Ran (?P<total>\d+) tests? in [\d.]+s\s+(?:OK|FAILED \((?:failures=(?P<failed>\d+))?(?:, )?(?:errors=(?P<failed2>\d+))?)`)},
	// jest: "Tests:       1 failed, 2 skipped, 2 passed, 5 total"; vitest: "Tests  1 failed | 2 passed (3)".
	{words: []byte("Tests"), expr: regexp.MustCompile(`(?m)^\s*Tests:?\s+(?:(?P<failed>\d+) failed)?(?:,| \|)? ?(?:\d+ (?:skipped|todo)(?:,| \|)? ?)*(?:(?P<passed>\d+) passed)?(?:, \d+ total| \(\d+\))`)},
	// mocha: "3 passing (10ms)", "1 failing".
	{words: []byte("passing"), expr: regexp.MustCompile(`(?m)^\s*(?P<passed>\d+) passing \([^)]*\)(?:\s+\d+ pending)?(?:\s+(?P<failed>\d+) failing)?`)},
	// cargo: "test result: FAILED. 3 passed; 1 failed; 0 ignored", a line for each binary.
	{words: []byte("test result:"), expr: regexp.MustCompile(`(?m)^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed`), sum: true},
	// Maven: "Tests run: 5, Failures: 1, Errors: 0"; the last line has the sum.
	{words: []byte("Tests run:"), expr: regexp.MustCompile(`Tests run: (?P<total>\d+), Failures: (?P<failed>\d+), Errors: (?P<failed2>\d+)`)},
	// Gradle: "12 tests completed, 2 failed".
	{words: []byte("tests completed"), expr: regexp.MustCompile(`(?P<total>\d+) tests completed, (?P<failed>\d+) failed`)},
	// RSpec: "12 examples, 2 failures".
	{words: []byte(" example"), expr: regexp.MustCompile(`(?m)^(?P<total>\d+) examples?, (?P<failed>\d+) failures?`)},
	// .NET: "Failed!  - Failed: 1, Passed: 11, Skipped: 0, Total: 12", a line for each project; else "Passed: 11", "Failed: 1".
	{words: []byte("! "), expr: regexp.MustCompile(`(?m)^(?:Failed|Passed)!\s+- Failed:\s+(?P<failed>\d+), Passed:\s+(?P<passed>\d+)`), sum: true},
	{words: []byte("Total tests:"), expr: regexp.MustCompile(`(?m)^Total tests: \d+\s+Passed: (?P<passed>\d+)(?:\s+Failed: (?P<failed>\d+))?`)},
	// PHPUnit: "Tests: 12, Assertions: 20, Errors: 1, Failures: 1." and "OK (12 tests, 20 assertions)".
	{words: []byte("Assertions: "), expr: regexp.MustCompile(`Tests: (?P<total>\d+), Assertions: \d+(?:, Errors: (?P<failed2>\d+))?(?:, Failures: (?P<failed>\d+))?`)},
	{words: []byte("OK ("), expr: regexp.MustCompile(`(?m)^OK \((?P<total>\d+) tests?, \d+ assertions?\)`)},
	// Node: "# pass 11", "# fail 1".
	{words: []byte("pass "), expr: regexp.MustCompile(`(?m)^(?:#|\x{2139}) pass (?P<passed>\d+)\s+(?:#|\x{2139}) fail (?P<failed>\d+)`)},
	// ExUnit: "12 tests, 1 failure"; Minitest: "12 runs, 20 assertions, 1 failures, 0 errors".
	{words: []byte(" failure"), expr: regexp.MustCompile(`(?m)^(?:\d+ doctests?, )?(?P<total>\d+) (?:tests|runs)?,(?: \d+ assertions,)? (?P<failed>\d+) failures?(?:, (?P<failed2>\d+) errors)?`)},
	// Swift: "Executed 12 tests, with 1 failure (0 unexpected)".
	{words: []byte("Executed "), expr: regexp.MustCompile(`Executed (?P<total>\d+) tests?, with (?:\d+ tests? skipped and )?(?P<failed>\d+) failures?`)},
	// Bun: " 11 pass", " 1 fail".
	{words: []byte(" pass\n"), expr: regexp.MustCompile(`(?m)^\s*(?P<passed>\d+) pass\n(?:\s*\d+ (?:skip|todo)\n)*\s*(?P<failed>\d+) fail$`)},
	// Deno: "FAILED | 11 passed | 1 failed (31ms)".
	{words: []byte(" passed | "), expr: regexp.MustCompile(`(?m)^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed`)},
	// CTest: "92% tests passed, 1 tests failed out of 12".
	{words: []byte("% tests passed"), expr: regexp.MustCompile(`tests passed, (?P<failed>\d+) tests failed out of (?P<total>\d+)`)},
	// Playwright: "  1 failed", the names, "  11 passed (2.1s)".
	{words: []byte(" passed ("), expr: regexp.MustCompile(`(?m)^ *(?:(?P<failed>\d+) failed\n(?:    .*\n)*)?(?:  \d+ (?:skipped|flaky|interrupted)\n(?:    .*\n)*)* *(?P<passed>\d+) passed \([\d.]+m?s\)`)},
}

// maxSummary is how many bytes at the end of a result are searched for the figures of tests.
const maxSummary = 16 << 10

// figures returns how many tests passed and failed, by what test programs print at the end.
func figures(said []byte) (passed, failed events.Optional) {
	said = said[max(0, len(said)-maxSummary):]
	for i := range summaries {
		s := &summaries[i]
		if !bytes.Contains(said, s.words) {
			continue
		}
		all := s.expr.FindAllSubmatch(said, -1)
		if len(all) > 0 && !s.sum {
			all = all[len(all)-1:]
		}
		var f [3]int64 // passed, failed, total
		stated := false
		for _, match := range all {
			for g, name := range s.expr.SubexpNames() {
				if n, ok := number(match[g]); ok && name != "" {
					f[map[string]int{"passed": 0, "failed": 1, "failed2": 1, "total": 2}[name]] += n
					stated = true
				}
			}
		}
		if stated {
			return events.Optional{Set: true, Value: max(f[0], f[2]-f[1])}, events.Optional{Set: true, Value: f[1]}
		}
	}
	return goFigures(said)
}

// goFigures counts what go test prints: a line for each test that failed, and with -v for each that
// passed; without one for each package.
func goFigures(said []byte) (passed, failed events.Optional) {
	var tests, packages [2]int64
	for line := range bytes.Lines(said) {
		switch line = bytes.TrimRight(line, "\n"); {
		case bytes.HasPrefix(line, []byte("--- PASS: ")):
			tests[0]++
		case bytes.HasPrefix(line, []byte("--- FAIL: ")):
			tests[1]++
		case bytes.HasPrefix(line, []byte("ok  \t")):
			packages[0]++
		case bytes.HasPrefix(line, []byte("FAIL\t")):
			packages[1]++
		}
	}
	if tests[1] > 0 || packages[1] > 0 || packages[0] > 0 {
		return events.Optional{Set: true, Value: max(tests[0], packages[0])}, events.Optional{Set: true, Value: max(tests[1], packages[1])}
	}
	return passed, failed
}
