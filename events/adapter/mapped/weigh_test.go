package mapped

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// TestExpressionsThatMakeMuch holds that whatever an expression would make of a small record, it
// ends with an error, and little is allocated on the way there.
func TestExpressionsThatMakeMuch(t *testing.T) {
	record, err := decode([]byte(`{"x":"y","n":500000000,"l":[[1,2],[3]]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`.x|until(false; .+.)`, `[.x]|until(false; .+.)`, `[.x]|until(false; [.,.])`, `{a:.x}|until(false; {a:.,b:.})`, `.x|until(false; "\(.)\(.)")`,
		`.x|until(false; @json "\(.)\(.)")`, `.x|until(false; tojson)`, `.x|until(false; ascii_downcase+ascii_upcase)`, `[.x]|reduce range(60) as $i (.; [.,.])|tojson`,
		`.x*1e9`, `.x*.n`, `.n*.x`, `.n|until(false; .*.)`, `[limit(1e9; repeat("x"*100000))]`, `[range(100000)|"x"*10]|join("y"*100000)`,
		`.l[.n]=1`, `.["l"][.n]|=1`, `.l[.n:]=[1]`, `setpath(["l",.n]; 1)`, `[range(1e9)]`, `reduce range(1e9) as $i ([]; .+[$i])`, `def f: f|f; f`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x, err := compile(0, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		out, err := x.text(record)
		runtime.ReadMemStats(&after)
		if err == nil || !errors.Is(err, errLarge) && !errors.Is(err, errEndless) && !strings.Contains(err.Error(), "an index of more than") {
			t.Errorf("%s: %.40q, %v", text, out, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 1024 {
			t.Errorf("%s: %d MiB were allocated", text, made)
		}
	}
	for _, text := range []string{`transpose`, `.l|[combinations]`, `fromstream(.l)`, `.x *= 1e9`, `getpath(["l",1e9]) = 1`} {
		if _, err := compile(0, text); err == nil || !strings.Contains(err.Error(), "in mappings") {
			t.Errorf("%s: %v", text, err)
		}
	}
	long, err := decode([]byte(`{"x":"` + strings.Repeat("a ", mostSearched) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`.x|gsub(" "; "_")`, `[.x|match(" "; "g")]`, `[.x|scan("a")]`, `[.x|splits(" ")]`, `.x|split(" "; "g")`, `.x|if test(" ") then gsub("a";"") else . end`} {
		x, err := compile(0, text)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := x.text(long); err == nil || !strings.Contains(err.Error(), "to search in") {
			t.Errorf("%s: %.40q, %v", text, out, err)
		}
	}
	if _, err := decode([]byte(`{"x":` + strings.Repeat("9", mostDigits+1) + `}`)); err == nil {
		t.Error("a number that takes long to reckon with was taken")
	}
	if _, err := decode([]byte(`{"x":"\"` + strings.Repeat("9", mostDigits+1) + `"}`)); err != nil {
		t.Error(err)
	}
}

// TestWeighingChangesNothing compares results with those of gojq itself.
func TestWeighingChangesNothing(t *testing.T) {
	const record = `{"x":"foo","n":7,"big":12345678901234567890,"l":[3,1,2],"m":{"a":1,"b":[true,null]},"k":[{"role":"user","content":"hi"},{"role":"tool","content":"42"}]}`
	for _, text := range []string{
		`.x+"y"`, `"ab"*3`, `.n*2`, `0*.x`, `.big+1`, `.big*.n`, `(1,2)*(3,4)`, `{a:1}*{a:{b:2}}`, `[.x,.n]|join("/")`, `[.l[],null,true]|join("-")`, `[]|join(",")`, `{a:.x,(.x):.n}`,
		`.m|to_entries|map("\(.key)=\(.value)")|join(",")`, `setpath(["m","a"]; 9)`, `.l[1]=5|.l`, `.m.a|=.+1|.m`, `.m.z.y=1|.m`, `.l[0:1]=[9]|.l`, `.n+=1|.n`, `.x as $y|$y+"z"`,
		`def f: .+"x"; .x|f`, `def f($a): $a*2; f(.n)`, `reduce .l[] as $i (0; .+$i)`, `foreach .l[] as $i (0; .+$i; [.,$i])`, `.x|gsub("o"; "0")`, `.x|gsub("(?<c>o)"; .c+"!")`, `[.x|splits("o")]`, `.x|split("o";"g")`, `.x|split("o")`, `.x|sub("o";"0")|.+"x"`, `.x|capture("(?<a>f)")`, `first(.l[]|select(.>1))`,
		`del(.x)|tojson`, `[path(..)]|length`, `[paths]|tojson`, `path(.m.a)`, `pick(.m.a)`, `.l|map(.+1)|tostring`, `@base64 "a\(.x)"`, `.x|@json`, `if .x then .x+"1" else "n" end`,
		`try error("x") catch .+"!"`, `.none // "none"`, `.l|sort_by(-.)|first`, `with_entries(select(.key=="x"))`, `.l as [$a,$b]|$a+$b`, `.x|test("f")`, `[.k[]|select(.role=="tool")|.content]|last`,
		`[..|.content? // empty]|add`, `.k|map(.role)|unique|length`, `[limit(2; .l[])]`, `[.l[]|.*2]|add/3`, `walk(if type=="number" then .+1 else . end)|.l`, `(.l|first)|=5|.l`, `.l|first`,
		`.k|group_by(.role)|map(length)`, `any(.l[]; .>2)`, `-.n`, `.l|-.[0]`, `[.x]|.[0:1]|.[0]`, `.x|ascii_upcase|explode|implode`, `@csv "\([.x,.n])"`, `label $out|.l[]|if .<2 then .,break $out else empty end`, `.k[0]["role"]`, `."x"`, `.x?+"a"`, `[.[]|numbers]|add`, `(.a,.b)=1|.a+.b`, `(.l[]|select(.>1))|=.*10|.l`,
	} {
		query, err := gojq.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		in, err := decode([]byte(record))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := query.Run(in).Next()
		x, err := compile(0, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := x.text(in)
		if fault, failed := want.(error); failed {
			t.Fatalf("%s: %v", text, fault)
		}
		if s, ok := want.(string); ok {
			want = []byte(s)
		} else if want != nil {
			if want, err = gojq.Marshal(want); err != nil {
				t.Fatal(err)
			}
		} else {
			want = []byte(nil)
		}
		if err != nil || string(got) != string(want.([]byte)) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
