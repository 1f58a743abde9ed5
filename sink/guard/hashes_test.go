package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/events/fingerprint"
)

// hashVector is a row of the test vectors of hashes: what is hashed as what, and the result.
type hashVector struct {
	Of        string `json:"of"` // args or content
	Text      string `json:"text"`
	Hash      string `json:"hash"`
	Simhash   string `json:"simhash,omitempty"` // of a content, and args_sim of arguments
	Canonical string `json:"canonical,omitempty"`
}

// vectors are what weir's own package of fingerprints makes of texts.
func vectors(texts map[string][]string) (rows []hashVector) {
	for _, of := range []string{"args", "content"} {
		for _, text := range texts[of] {
			v := hashVector{Of: of, Text: text}
			if of == "args" {
				v.Hash = fingerprint.Args([]byte(text), nil).String()
				written := fingerprint.AppendCanonical(nil, []byte(text), nil)
				v.Canonical, v.Simhash = string(written), fingerprint.ArgsText(written).String()
				if v.Hash == "" {
					v.Simhash = "" // nothing but white space has neither
				}
			} else {
				v.Hash, v.Simhash = fingerprint.Content([]byte(text)).String(), fingerprint.Text([]byte(text)).String()
			}
			rows = append(rows, v)
		}
	}
	return rows
}

var hashTexts = map[string][]string{
	"args": {`{"order_id":"A-17"}`, ` { "b": 2, "a": 1.0 } `, `{"a":1,"b":2}`, `"{\"b\": 1, \"a\": 2}"`, `"[1, 2]"`, `"5"`, `5`, `Paris`, `"Paris"`, `{bad`, `"{bad"`, `{}`, `[]`, `null`, `true`,
		`[1.0,1e2,1E+2,-0,0.0,-1.50,-7]`, `[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]`,
		`[9007199254740993,295147905179352830000,9.999999999999997e22,0.000001,1e-7,1e21,123456789012345,1234567890123456]`, `1e999`, `{"a":01}`, `[1,]`, `NaN`, `[Infinity]`,
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `["\ud83d\ude00","\ud83d","\u0000\b\f\t"]`, "{\"a\":\"x\x7fy\"}", `{"a":1,"a":2}`,
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`, `{"q":{"z":[{"y":0,"x":1}],"a":null}}`, `tool_name{"query": "weather in Paris"}`, `{"command":"npm test -- --run 2>&1 | tail -20"}`, `{"command": "npm test | head -5 && ls -la /tmp > /dev/null"}`, `{"cmd":"grep -rn 'of the words' src"}`, `{"command":"a\nb -c | cat"}`, `{"command":"echo \"a b\" c_d_e 'x y' don't 'open"}`,
		`{"command":"` + strings.Repeat("ls -l ", 44) + `"}`, `{"command":"` + strings.Repeat("é ", 90) + `"}`, `{"sql":"SELECT a FROM t WHERE b = 'c' AND d_1 = \"e\""}`, "größe 7 'ü' x'y'z", `{"query":"what doesn't work?"}`,
		``, " \n\u00a0", strings.Repeat("[", 300) + strings.Repeat("]", 300)},
	"content": {"found", " found\n", "", "request_id: 12ab-9 done in 12.3 ms", `{"request_id":"q-7","rows":[1,2,3],"took":"0.8s"}`, "2026-11-21T15:03:36.642Z ok", "2026-11-21 15:03:36,642+01:00 ok", "2026-11-21 is a date",
		"at 15:03:36 it rang", "id 6f1c2a34-9b7e-4c1d-8e2f-001122334455 gone", "id 6f1c2a34-9b7e-4c1d-8e2f-0011223344556 kept", "call_bb923d07ce and toolu_01AbCdEf9 and run_tests and msg_abcdefgh",
		"object at 0x7f8a9c001230 and 0x1f", "30 s left", "2.5 h left", "took 2.5s", "took 1m2.5s", "took 3ms", "took 12 µs or 12 μs", "1732200000", "1732200000.123 is now", "9932200000 is not", "v1.1732200000 is a fraction",
		"page 3 of 17", "x-request-id=abc123", "xtraceid = 'q77'", "Trace-Id:  deadbeef99", `\"call_id\": \"ab1\"`, "tool_call_id: ab", "requestidentifier: abc", "correlation_id_of_the_whole_flow: abcdef",
		"Ünïcödé Wörter — und „Zitate“ … ½ ² नमस्ते ΑΒΓ İstanbul", "naïve café", "日本語 テキスト 42", "ONE two Three_four five-six", "🙂 only signs ☃ →", "...", "a", "a a a a b",
		"traceid:call_bb923d07ceüber", "chatcmpl-abc12345 adk-1234abcd aitxt-99998888", "12:00:00.5x and 2026-11-21T12:00:00.5x", "2026-11-21T12:00:00+0100 2026-11-21T12:00:00+01:0", "5 msecs 5 msec 5milliseconds 7 nanoseconds 3 days 1.5 seconds",
		strings.Repeat("the quick brown fox jumps over the lazy dog ", 400), "sess_1 s3://x/y a-b c_d m1 t2", "word" + strings.Repeat("x", 200) + " tail", "req-9f8e7d6c5b4a", "1411111111 2111111111 2211111111 1411111111222", "17 MB in 12. ms 5 s. 5.0 s."},
}

const hashFile = "testdata/hashes.json"

// TestHashVectors holds the file of test vectors to weir's own fingerprints.
func TestHashVectors(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("[\n")
	rows := vectors(hashTexts)
	for i, row := range rows {
		out := json.NewEncoder(&want)
		out.SetEscapeHTML(false)
		want.WriteString("  ")
		if err := out.Encode(row); err != nil {
			t.Fatal(err)
		}
		if i+1 < len(rows) {
			want.Truncate(want.Len() - 1)
			want.WriteString(",\n")
		}
	}
	want.WriteString("]\n")
	if os.Getenv("UPDATE_HASHES") != "" {
		if err := os.WriteFile(hashFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(hashFile); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what weir makes of its texts (%v); run the test with UPDATE_HASHES=1", hashFile, err)
	}
}

// TestHashesOfOtherLanguages holds the functions of the guards to the vectors, and to what weir makes
// of texts that are put together at random.
func TestHashesOfOtherLanguages(t *testing.T) {
	rows := append(vectors(hashTexts), vectors(randomTexts(3000))...)
	given, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			args := []string{"testdata/hashes.py", command[2]}
			if l.name == "typescript" {
				args = []string{"testdata/hashes.mjs", filepath.Dir(command[2])}
			}
			run := exec.Command(command[0], args...)
			run.Stdin, run.Stderr = bytes.NewReader(given), os.Stderr
			out, err := run.Output()
			var got []hashVector
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil || len(got) != len(rows) {
				t.Fatalf("%v: %d rows of %d", err, len(got), len(rows))
			}
			wrong := 0
			for i, row := range rows {
				if got[i].Hash != row.Hash || got[i].Simhash != row.Simhash || row.Canonical != "" && got[i].Canonical != row.Canonical && row.Hash != "" {
					if wrong++; wrong < 10 {
						t.Errorf("%s of %.300q:\n got %.300s\nwant %.300s", row.Of, row.Text, fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", row))
					}
				}
			}
			t.Logf("%d of %d rows differ", wrong, len(rows))
		})
	}
}

// randomTexts are texts of the pieces that hashing looks at more closely.
func randomTexts(n int) map[string][]string {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := strings.Split("call_ req- run_ trace_id request_id span-id x- : = \" ' \\ 12 123456 1732200000 1.5 .5 0x 0xabcdef12 -12- 2026-11-21 T 12:30:59 Z +01:00 ,250 ms s sec µs min 6f1c2a34-9b7e-4c1d-8e2f-001122334455 ab12cd34 deadbeef é 日本 _ - . a B zz call_id 00000000 ok [ ] { }", " ")
	pieces = append(pieces, "'", `\"`, "{\"command\":\"", " -la", " --no-color", "2>&1", ">/dev/null", " | head -3", "| cat", `\n`)
	pieces = append(pieces, " ", " ", " ", "\n")
	numbers := []string{"0", "-0", "1", "-1", "1.5", "1e5", "1E-7", "123456789012345678", "0.1", "1e21", "1e400", "-2.50", "5e-324", "01"}
	texts := map[string][]string{}
	for range n {
		var s strings.Builder
		for range 1 + r.IntN(12) {
			s.WriteString(pieces[r.IntN(len(pieces))])
		}
		texts["content"] = append(texts["content"], s.String())
		a := s.String()
		quoted, _ := json.Marshal(a)
		texts["args"] = append(texts["args"], fmt.Sprintf(`{"b":%s,%s:[%s, %s],"a":{"%c":null}}`, numbers[r.IntN(len(numbers))], quoted, numbers[r.IntN(len(numbers))], quoted, 'a'+rune(r.IntN(26))), a, fmt.Sprintf(`{"command":%s}`, quoted))
	}
	return texts
}
