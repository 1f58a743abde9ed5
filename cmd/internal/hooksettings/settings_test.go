package hooksettings

import (
	"strings"
	"testing"
)

const wanted = `{"hooks":{"PreToolUse":[{"hooks":[{"command":"weir check --hook --closed","type":"command"}],"matcher":"*"}],"Stop":[{"hooks":[{"command":"weir check --hook --closed","type":"command"}]}]}}`

func TestMerge(t *testing.T) {
	const stop = `"Stop":[{"hooks":[{"command":"weir check --hook --closed","type":"command"}]}]`
	const use = `{"hooks":[{"command":"weir check --hook --closed","type":"command"}],"matcher":"*"}`
	f := func(name, settings, want string) {
		t.Helper()
		got, err := Merge([]byte(settings), []byte(wanted))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if plain := strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(string(got)); plain != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, plain, want)
		}
		again, err := Merge(got, []byte(wanted))
		if err != nil || string(again) != string(got) {
			t.Errorf("%s, again: %v\n%s\nis no longer\n%s", name, err, again, got)
		}
	}
	f("nothing", "", wanted)
	f("blank", "\n", wanted)
	f("an empty object", "{}", wanted)
	f("other settings, in their order", `{"z":1,"model":"m","a":[1e400,12345678901234567890]}`,
		`{"z":1,"model":"m","a":[1e400,12345678901234567890],"hooks":{"PreToolUse":[`+use+`],`+stop+`}}`)
	f("hooks of others", `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"lint"}]}],"Notification":[{"hooks":[]}]},"x":true}`,
		`{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"lint"}]},`+use+`],"Notification":[{"hooks":[]}],`+stop+`},"x":true}`)
	f("weir of before, twice, among others", `{"hooks":{"PreToolUse":[{"hooks":[{"command":"lint"},{"command":"/opt/weir check --hook"}]},{"matcher":"*","hooks":[{"type":"http","url":"http://h/v1/hook"}]},{"matcher":"Bash","hooks":[{"command":"weir check --hook"}]},{"hooks":[{"command":"log"}]}]}}`,
		`{"hooks":{"PreToolUse":[{"hooks":[{"command":"lint"}]},`+use+`,{"hooks":[{"command":"log"}]}],`+stop+`}}`)
	f("comments", "{\n  // mine\n  \"model\": \"m\", /* and\n this */ \"hooks\": {},\n}", `{//mine"model":"m",/*andthis*/"hooks":{"PreToolUse":[`+use+`],`+stop+`},}`)
}

func TestMergeKeepsTheForm(t *testing.T) {
	const settings = "{\n\t\"model\": \"m\",\n\t\"hooks\": {}\n}\n"
	got, err := Merge([]byte(settings), []byte(`{"hooks":{"Stop":[1]}}`))
	if want := "{\n\t\"model\": \"m\",\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t1\n\t\t]\n\t}\n}\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestMergeLeavesAloneWhatItCannotRead makes sure that nothing comes back which could be
// written over a file.
func TestMergeLeavesAloneWhatItCannotRead(t *testing.T) {
	for _, settings := range []string{"{", "[]", `"x"`, `{"hooks":[]}`, `{"hooks":{"PreToolUse":{}}}`, "model = 1", "null"} {
		if got, err := Merge([]byte(settings), []byte(wanted)); err == nil {
			t.Errorf("%s: became %s", settings, got)
		}
	}
}
