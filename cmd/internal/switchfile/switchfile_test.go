package switchfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "switch.yaml")
}

func TestRead(t *testing.T) {
	s, err := Read(write(t, map[string]string{"switch.yaml": "runtimes:\n- {name: a, url-file: url, secret-file: key}\n", "url": "https://x.example/c\n", "key": strings.Repeat("k", minSecret)}))
	if err != nil || len(s.Runtimes) != 1 || s.Runtimes[0].Agent != "*" || s.Runtimes[0].URL != "https://x.example/c" || len(s.Runtimes[0].Secret) != minSecret {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"", "# nothing\n"} {
		if s, err := Read(write(t, map[string]string{"switch.yaml": text})); err != nil || len(s.Runtimes) != 0 {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	key := strings.Repeat("k", minSecret)
	for text, want := range map[string]string{
		"runtime: []\n":                             "there is no key \"runtime\"\n    did you mean runtimes?",
		"two-person: [all]\n":                       "switch.yaml:1:1: there is no key \"two-person\"\n    did you mean two-persons?",
		"drills:\n- {evry: 1h}\n":                   "drills: there is no key \"evry\"\n    did you mean every?",
		"other: 1\n":                                "the keys are two-persons, second-within, drills, runtimes, approvals",
		"second-within: 15\n":                       "second-within: \"15\" is no duration\n    write a number with its unit, such as 15m or 24h",
		"second-within: 15m\nsecond-within: 16m\n":  "is given twice",
		"second-within:\n":                          "has no value",
		"two-persons: all\n":                        "write it in brackets",
		"two-persons: [\"agent:x\"]\n":              "\"agent:x\" is no kind of scope\n    the kinds are all, tenant,",
		"two-persons: [agents]\n":                   "did you mean agent? the kinds are",
		"drills:\n- {scope: all, every: 30}\n":      "drills.every: \"30\" is no duration",
		"drills:\n- {scope: all, every: 30s}\n":     "every is 30s; want at least 1m0s",
		"drills:\n- {every: 1h}\n":                  "scope is missing",
		"drills:\n- {scope: nobody, every: 1h}\n":   "want one of all",
		"runtimes:\n- {name: [a]}\n":                "runtimes.name: want a text, got a list",
		"runtimes: [&a {name: x}, *a]\n":            "want a mapping, got an alias",
		"two-persons: [all]\n---\ndrills: []\n":     "a second document",
		"approvals: []\n":                           "approvals: want a mapping, got a list",
		"approvals: {url: http://x, tier: []}\n":    "did you mean tiers?",
		"approvals: {url: x, tiers: []}\n":          "url: the URL is no endpoint",
		"approvals: {url: http://x}\n":              "it has 0 tiers",
		"approvals: {url: http://x, grant: some}\n": "approvals.grant: \"some\" is no number",
		"approvals: {url: http://x, grant: -1, tiers: [{name: a, slack: \"http://x\"}]}\n":                                                              "grant is -1",
		"approvals: {url: http://x, unanswered: yes, tiers: [{name: a, slack: \"http://x\"}]}\n":                                                        "unanswered is \"yes\"; want deny, allow, hold",
		"approvals: {url: http://x, tiers: [{name: a, wait: 10}]}\n":                                                                                    "approvals.tiers.wait: \"10\" is no duration",
		"approvals: {url: http://x, tiers: [{name: a}]}\n":                                                                                              "want one of slack, teams and email",
		"approvals: {url: http://x, tiers: [{name: a, slack: \"http://x\", teams: \"http://x\"}]}\n":                                                    "want one of slack, teams and email",
		"approvals: {url: http://x, tiers: [{name: a, email: [nobody]}]}\n":                                                                             "email \"nobody\"",
		"approvals: {url: http://x, tiers: [{name: a, email: [a@b]}]}\n":                                                                                "smtp is missing",
		"approvals: {url: http://x, tiers: [{name: a, email: [a@b]}], smtp: {server: x, from: a@b}}\n":                                                  "server is \"x\"",
		"approvals: {url: http://x, tiers: [{name: a, email: [a@b]}], smtp: {server: \"x:25\", from: a@b, user: u, password-file: key, plain: true}}\n": "plain sends a password",
		"- all\n": "want a mapping, got a list",
		"runtimes:\n- {name: a, url: http://x, secret-file: key}\n- {name: a, url: http://x, secret-file: key}\n": "twice",
		"runtimes:\n- {name: a b, url: http://x, secret-file: key}\n":                                             "without spaces",
		"runtimes:\n- {name: a, secret-file: key}\n":                                                              "either url",
		"runtimes:\n- {name: a, url: ftp://x, secret-file: key}\n":                                                "no endpoint",
		"runtimes:\n- {name: a, url: http://x}\n":                                                                 "secret-file is missing",
		"runtimes:\n- {name: a, url: http://x, secret-file: short}\n":                                             "want at least",
		"runtimes:\n- {name: a, url: http://x, secret-file: none}\n":                                              "no such file",
	} {
		_, err := Read(write(t, map[string]string{"switch.yaml": text, "key": key, "short": "x"}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
