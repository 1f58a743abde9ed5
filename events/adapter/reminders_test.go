package adapter

import "testing"

func TestWithoutReminders(t *testing.T) {
	for said, want := range map[string]string{
		"":       "",
		"done\n": "done\n",
		"no rule\n\n<system-reminder>\nYou called it 5 times.\n</system-reminder>":                               "no rule",
		"no rule\n<system-reminder>a</system-reminder>\n\n<system-reminder>\nb</system-reminder>\n":              "no rule",
		"{\"exit_code\": 2}\n\n[Tool loop warning: repeated_exact_failure_warning; count=3; it failed 3 times.]": "{\"exit_code\": 2}",
		"no\n\n[Tool loop hard stop: x; count=9; y]\n":                                                           "no",
		"a list\n\n[1, 2]":                                "a list\n\n[1, 2]",
		"<system-reminder>a</system-reminder>":            "",
		"<system-reminder>a</system-reminder>\nsome text": "<system-reminder>a</system-reminder>\nsome text",
		"what </system-reminder> is":                      "what </system-reminder> is",
		"ends in </system-reminder>":                      "ends in </system-reminder>",
		"a page about <system-reminder> tags\n<system-reminder>count: 7</system-reminder>": "a page about <system-reminder> tags",
	} {
		if got := string(WithoutReminders([]byte(said))); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
