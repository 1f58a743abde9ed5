package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// fullVerdict has every field set.
func fullVerdict() Verdict {
	var v Verdict
	fill(reflect.ValueOf(&v).Elem(), 1)
	return v
}

// fill sets all that v holds to values that are not zero.
func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text <&> " + strings.Repeat("x", int(n)))
	case reflect.Int, reflect.Int64:
		v.SetInt(1_700_000_000_000 + n)
	case reflect.Float64:
		v.SetFloat(float64(n) + 0.25)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+int64(i))
		}
	default:
		panic("no filling for " + v.Type().String())
	}
}

func TestVerdictsSurviveTheirEncoding(t *testing.T) {
	f := func(v Verdict) {
		t.Helper()
		text := v.AppendJSON([]byte("before "))
		if !strings.HasPrefix(string(text), "before {") || strings.HasSuffix(string(text), "\n") || strings.Contains(string(text), `\u003c`) {
			t.Errorf("encoded %q", text)
		}
		text = text[len("before "):]
		var got Verdict
		if err := DecodeVerdict(text, &got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%v, decoded\n%+v\nwant\n%+v", err, got, v)
		}
		if again := got.AppendJSON(nil); string(again) != string(text) {
			t.Errorf("encoded again\n%s\nat first\n%s", again, text)
		}
	}
	f(fullVerdict())
	f(Verdict{ID: "v", Action: "allow"})
}

// byReflection is what encoding/json makes of a verdict, by the tags of its fields.
func byReflection(t testing.TB, v *Verdict) string {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// some sets what v holds to something or leaves it zero, also to what has to be escaped.
func some(r *rand.Rand, v reflect.Value) {
	texts := []string{"", "plain", "a<b>&c", `"\`, "\n\r\t\b\f\x01\x7f", "ü→😀", "\u2028", "x\u2029", "\xff\xe2\x80", "\xed\xa0\x80"}
	whole := []int64{0, 1, -1, 7, 1_700_000_000_000, math.MaxInt64, math.MinInt64}
	fractions := []float64{0, math.Copysign(0, -1), 1, -3, 0.25, 1e-7, 1e20, 1e21, 1 << 53, 1<<53 + 2, math.MaxFloat64, 5e-324}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(whole[r.IntN(len(whole))])
	case reflect.Float64:
		v.SetFloat(fractions[r.IntN(len(fractions))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			some(r, v.Elem())
		}
	case reflect.Slice:
		if n := r.IntN(4) - 1; n >= 0 { // also one that is empty and not nil
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				some(r, v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			some(r, v.Field(i))
		}
	default:
		panic("nothing for " + v.Type().String())
	}
}

func TestVerdictsAreWrittenAsTheirTagsSay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		var v Verdict
		some(r, reflect.ValueOf(&v).Elem())
		if got, want := string(v.AppendJSON(nil)), byReflection(t, &v); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func BenchmarkVerdictAppendJSON(b *testing.B) {
	limit, observed := 20.0, 21.0
	v := Verdict{SchemaVersion: 1, ID: "0f3c2d9e7a514b6e-1767225612345", Time: RFC3339(1767225612345), Revision: 1767225612345, Mode: ModeEnforce,
		Scope: Scope{"pair", "agent-1|agent-2"}, Action: "throttle", Effective: EffectiveNext, Match: &Match{From: []string{"agent-1"}, To: []string{"agent-2"}},
		Reason: "ping_pong", Limit: &limit, Observed: &observed, Unit: UnitHops, WindowS: 60, Message: "agent-1 and agent-2 hand each other the same work",
		CorrelationID: "3f0c2d9e-7a51-4b6e-9d0e-0123456789ab", Trigger: &Trigger{"e-1", 21}, Evidence: &Evidence{ChainTail: []string{"agent-1", "agent-2"}, Calls: 21}}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = v.AppendJSON(out[:0])
	}
}

// BenchmarkDecodeVerdict reads what dispatchers read for each call, in both ways.
func BenchmarkDecodeVerdict(b *testing.B) {
	v := allowance()
	text := v.AppendJSON(nil)
	f := func(name string, decode func(v *Verdict) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(new(Verdict)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	f("plain", func(v *Verdict) error { return DecodeVerdict(text, v) })
	f("any", func(v *Verdict) error { return v.decodeAny(text) })
}

func TestAbsentFieldsOfAVerdictAreNotWritten(t *testing.T) {
	v := Verdict{ID: "v", Time: RFC3339(1), Action: "allow"}
	const want = `{"id":"v","time":"1970-01-01T00:00:00.001Z","revision":0,"mode":"","scope":{"kind":"","id":""},"action":"allow",` +
		`"controlled_cutoff":false,"reason_code":""}`
	if got := string(v.AppendJSON(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAVerdictWithoutAFiniteNumberIsABrokenInvariant(t *testing.T) {
	defer func() {
		if r := recover(); r == nil {
			t.Error("no panic")
		}
	}()
	nan := math.NaN()
	(&Verdict{ID: "v", Observed: &nan}).AppendJSON(nil)
}

func TestDecodeVerdictIgnoresWhatItDoesNotKnow(t *testing.T) {
	v := fullVerdict()
	err := DecodeVerdict([]byte(` {"id":"v","action":"deny","from_the_future":{"a":[1,{"b":null}]},"scope":{"kind":"flow","id":"f","x":1}} `), &v)
	if want := (Verdict{ID: "v", Action: "deny", Scope: Scope{"flow", "f"}}); err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%v, got %+v, want %+v", err, v, want)
	}
}

func TestDecodeVerdictRefuses(t *testing.T) {
	f := func(text string, code Code, field string) {
		t.Helper()
		fault, ok := errors.AsType[*DecodeError](DecodeVerdict([]byte(text), new(Verdict)))
		if !ok || fault.Code != code || fault.Field != field {
			t.Errorf("got %v, want %s, field %q: %s", fault, code, field, text)
		}
	}
	f(``, CodeSyntax, "")
	f(`null`, CodeWrongType, "")
	f(`{"id":"v","action":"deny"`, CodeSyntax, "")
	f(`{"id":"v","action":"deny"} {}`, CodeTrailingData, "")
	f(`{"id":"v","action":"deny","id":"w"}`, CodeDuplicateField, "id")
	f(`{"id":"v","action":"deny","ID":"w"}`, CodeDuplicateField, "ID")
	f(`{"id":"v","tool":"a","tooL":"b","action":"deny"}`, CodeDuplicateField, "tooL")
	f(`{"id":"v","taſk_id":"a","action":"deny","task_id":"b"}`, CodeDuplicateField, "task_id")
	f(`{"id":"v","action":"deny","match":{"to":["a"],"to":[]}}`, CodeDuplicateField, "match.to")
	f("{\"id\":\"\xff\",\"action\":\"deny\"}", CodeInvalidUTF8, "id")
	f(`{"id":"\ud800","action":"deny"}`, CodeInvalidUTF8, "id")
	f(`{"action":"deny"}`, CodeMissingField, "id")
	f(`{"id":"v"}`, CodeMissingField, "action")
	f(`{"id":1,"action":"deny"}`, CodeWrongType, "id")
	f(`{"id":"v","action":"deny","revision":1.5}`, CodeWrongType, "revision")
	f(`{"id":"v","action":"deny","time":"yesterday"}`, CodeInvalidValue, "")
	f(`{"id":"v","action":"deny","detail":"`+strings.Repeat("x", MaxVerdictBytes)+`"}`, CodeTooLong, "")
	f(`{"id":"v","action":"deny","x":`+strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)+`}`, CodeTooDeep, "x")
}

// allowance is what the fold answers to a call that nothing is said against.
func allowance() Verdict {
	return Verdict{SchemaVersion: 1, ID: "2197c034c859ad1e", Time: RFC3339(1_700_000_000_498), Mode: ModeEnforce, Scope: Scope{ScopeFlow, "ü \"<&>\""},
		Action: Allow, Reason: "allowed", ConfigVersion: "xxh64:057ba44458bd0d61", CorrelationID: "f-13-461"}
}

// TestAllowancesAreReadPlainly shows which verdicts are read without encoding/json: those are
// nearly all that a dispatcher gets, and it waits for them.
func TestAllowancesAreReadPlainly(t *testing.T) {
	f := func(v Verdict, want bool) {
		t.Helper()
		if text := v.AppendJSON(nil); new(Verdict).decodePlain(text) != want {
			t.Errorf("read plainly: %v, want %v: %s", !want, want, text)
		}
	}
	f(allowance(), true)
	behind := allowance()
	behind.Degraded, behind.Revision, behind.ControlledCutoff = DegradedBehind, 1_700_000_000_498, true
	f(behind, true)
	told := allowance()
	told.Remaining = []Remaining{{RuleID: "calls"}}
	f(told, false)
	f(fullVerdict(), false)
}

// TestPlainVerdictsShareNothing changes the text of a verdict that was read.
func TestPlainVerdictsShareNothing(t *testing.T) {
	want, got := allowance(), Verdict{}
	text := want.AppendJSON(nil)
	if err := DecodeVerdict(text, &got); err != nil {
		t.Fatal(err)
	}
	clear(text)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzDecodeVerdict checks that what is read is written and read again as the same.
func FuzzDecodeVerdict(f *testing.F) {
	v := fullVerdict()
	f.Add(v.AppendJSON(nil))
	f.Add([]byte(`{"id":"v","action":"allow","x":[{"a":1}]}`))
	allowed := allowance()
	f.Add(allowed.AppendJSON(nil))
	f.Add([]byte(`{"id":"v","action":"allow","ID":"w"}`))
	f.Add([]byte(`{"id":"v","action":"allow","id":"w"}`))
	f.Add([]byte(`{"schema_version":1.0,"id":"v","action":"allow","time":null}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		var plain, other Verdict
		if plain.decodePlain(p) {
			if err := other.decodeAny(p); err != nil || !reflect.DeepEqual(plain, other) {
				t.Fatalf("%v: read plainly\n%+v\nby encoding/json\n%+v\nof %q", err, plain, other, p)
			}
		}
		var v, again Verdict
		if DecodeVerdict(p, &v) != nil {
			return
		}
		text := v.AppendJSON(nil)
		if want := byReflection(t, &v); string(text) != want {
			t.Fatalf("got\n%s\nwant\n%s", text, want)
		}
		if err := DecodeVerdict(text, &again); err != nil && len(text) <= MaxVerdictBytes {
			t.Fatalf("%v: %s, first read from %q", err, text, p)
		}
		if second := again.AppendJSON(nil); len(text) <= MaxVerdictBytes && string(second) != string(text) {
			t.Fatalf("second\n%s\nfirst\n%s", second, text)
		}
	})
}
