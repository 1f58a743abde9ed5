package adapter

import "testing"

func TestWithoutReminders(t *testing.T) {
	for said, want := range map[string]string{
		"":       "",
		"done\n": "done\n",
		"no rule\n\n<system-reminder>\nYou called it 5 times.\n</system-reminder>":                  "no rule",
		"no rule\n<system-reminder>a</system-reminder>\n\n<system-reminder>\nb</system-reminder>\n": "no rule",
		"<system-reminder>a</system-reminder>":                                                      "",
		"<system-reminder>a</system-reminder>\nsome text":                                           "<system-reminder>a</system-reminder>\nsome text",
		"what </system-reminder> is":                                                                "what </system-reminder> is",
		"ends in </system-reminder>":                                                                "ends in </system-reminder>",
		"a page about <system-reminder> tags\n<system-reminder>count: 7</system-reminder>":          "a page about <system-reminder> tags",
	} {
		if got := string(WithoutReminders([]byte(said))); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
