package check

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"weir/events"
)

var correlations = flag.Int("correlations", 30, "streams and batches per law of correlation")

// sides are how a planted server treats a check, by the beginning of its id.
var sides = []string{"soon", "late", "refused", "laterefused", "wrong", "bad", "panic", "latepanic", "long"}

// planted answers each ask as its id says.
func planted(t *testing.T) func(asks []*Request) {
	return func(asks []*Request) {
		for _, q := range asks {
			side, _, _ := strings.Cut(q.Event.ID, "-")
			answer := func() (*events.Verdict, error) {
				if !strings.Contains(string(q.Raw), `"`+q.Event.ID+`"`) {
					t.Errorf("the event is %s, and its line %.100s", q.Event.ID, q.Raw)
				}
				v := &events.Verdict{ID: q.Event.ID, Mode: "enforce", Action: events.Allow, Reason: "allowed", CorrelationID: q.Event.CorrelationID}
				switch side {
				case "refused", "laterefused":
					v.Action, v.Reason = events.Halt, "max_total_calls"
				case "wrong":
					return nil, &Error{http.StatusConflict, q.Event.ID}
				case "panic", "latepanic":
					panic(q.Event.ID)
				}
				return v, nil
			}
			switch side {
			case "late", "laterefused", "latepanic", "panic":
				turns := rand.IntN(4)
				q.Wait = func() (*events.Verdict, error) {
					for range turns {
						runtime.Gosched()
					}
					return answer()
				}
			default:
				q.Verdict, q.Err = answer()
			}
		}
	}
}

// statusOf is the status that planted gives by the side of an id.
var statusOf = map[string]int{"soon": 200, "long": 200, "late": 200, "refused": 403, "laterefused": 403, "wrong": 409, "bad": 400, "panic": 500, "latepanic": 500}

// lineOn is a line about an ask on a side.
func lineOn(random *rand.Rand, side string, n int) (id, line string) {
	id = fmt.Sprintf("%s-%d", side, n)
	line = lineOfMany(id)
	switch side {
	case "bad":
		line = line[:len(line)-1] + `,"kind":"` + id + `"}`
	case "long":
		line = line[:len(line)-1] + `,"attributes":{"x":"` + strings.Repeat("y", random.IntN(40<<10)) + `"}}`
	}
	return id, line
}

// TestEachLineGetsItsOwnAnswer sends streams of 1 to 5,000 lines at once, cut anywhere, and holds
// that each line has one answer, which is its own.
func TestEachLineGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	for round := range *correlations {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		count := []int{1, 2, MostAsks - 1, MostAsks, MostAsks + 1, 2*MostAsks + 1, 600, 5000}[round%8]
		few := random.IntN(len(sides)) + 1
		ids := make(map[int]string)
		var text strings.Builder
		for n := 1; n <= count; n++ {
			if random.IntN(20) == 0 {
				text.WriteString("\n")
				continue
			}
			id, line := lineOn(random, sides[random.IntN(few)], n)
			ids[n] = id
			text.WriteString(line + "\n")
		}
		s := openStream(t, &Stream{Handler: Handler{Check: planted(t)}}, "")
		go func() {
			rest := text.String()
			for rest != "" {
				part := len(rest)
				if round%3 > 0 {
					part = min(part, 1+random.IntN([]int{0, 300, 200 << 10}[round%3]))
				}
				if _, err := io.WriteString(s.out, rest[:part]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[part:]
			}
			_ = s.out.Close()
		}()
		for len(ids) > 0 {
			text, err := s.in.ReadString('\n')
			var got struct {
				Line, Status int
				Body         json.RawMessage
			}
			if err == nil {
				err = json.Unmarshal([]byte(text), &got)
			}
			if err != nil {
				t.Fatalf("round %d, %d lines, %d without an answer: %.300s: %v", round, count, len(ids), text, err)
			}
			checkAnswer(t, ids[got.Line], got.Status, string(got.Body))
			delete(ids, got.Line)
		}
		s.wantEnd()
	}
}

// checkAnswer holds that an answer is that to the id, and not "" for none.
func checkAnswer(t *testing.T, id string, status int, body string) {
	t.Helper()
	side, _, _ := strings.Cut(id, "-")
	named := strings.Contains(body, `"`+id+`"`) || strings.Contains(body, ":"+id+`"`)
	if id == "" || status != statusOf[side] || !named && side != "bad" && status != http.StatusInternalServerError {
		t.Errorf("the answer to %q has status %d and body %.200s", id, status, body)
	}
}

// TestEachLineOfABatchGetsItsOwnAnswer holds the same of batches, whose answers stand in the order
// of the lines.
func TestEachLineOfABatchGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	for round := range *correlations {
		random := rand.New(rand.NewPCG(2, uint64(round)))
		var ids []string
		var text strings.Builder
		for n := range 1 + random.IntN(MostAsks) {
			id, line := lineOn(random, sides[random.IntN(len(sides)-1)], n) // all long ones together are too long
			ids = append(ids, id)
			text.WriteString(line + "\n")
		}
		w := postTo(&Handler{Check: planted(t)}, "", text.String())
		lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
		if w.Code != http.StatusOK || len(lines) != len(ids) {
			t.Fatalf("status %d, %d answers to %d lines", w.Code, len(lines), len(ids))
		}
		for i, line := range lines {
			var got struct {
				Status int
				Body   json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			checkAnswer(t, ids[i], got.Status, string(got.Body))
		}
	}
}

// TestAPanicOfCheckCostsTheAnswersThatAreMissing keeps those that were there before.
func TestAPanicOfCheckCostsTheAnswersThatAreMissing(t *testing.T) {
	t.Parallel()
	h := &Handler{Check: func(asks []*Request) {
		asks[0].Verdict = allow()
		panic("planted")
	}}
	text := lineOfMany("1") + "\n" + lineOfMany("2") + "\n"
	if got := postTo(h, "", text).Body.String(); !strings.Contains(got, `{"status":200,`) || !strings.Contains(got, `{"status":500,`) {
		t.Errorf("the batch is answered with %s", got)
	}
	s := openStream(t, &Stream{Handler: *h}, "")
	s.send(text)
	s.want(1, http.StatusOK, `"v2"`)
	s.want(2, http.StatusInternalServerError, "planted")
}

// TestAPanicOfFailCostsOneAnswer answers with 500 where writing the error panics too.
func TestAPanicOfFailCostsOneAnswer(t *testing.T) {
	t.Parallel()
	s := openStream(t, &Stream{Handler: Handler{Check: planted(t), Fail: func(http.ResponseWriter, *http.Request, error) { panic("planted") }}}, "")
	s.send(lineOfMany("wrong-1") + "\n")
	s.want(1, http.StatusInternalServerError, "see the log of weir")
	s.send(lineOfMany("soon-2") + "\n")
	s.want(2, http.StatusOK, "soon-2")
}

// BenchmarkStream answers lines that come one by one and several at once.
func BenchmarkStream(b *testing.B) {
	for _, several := range []int{1, 32} {
		b.Run(fmt.Sprint(several), func(b *testing.B) {
			s := openStream(b, &Stream{Handler: Handler{Check: func(asks []*Request) {
				for _, q := range asks {
					q.Verdict = allow()
				}
			}}}, "")
			text := strings.Repeat(lineOfMany("1")+"\n", several)
			b.ReportAllocs()
			for range b.N / several {
				s.send(text)
				for range several {
					if _, err := s.in.ReadSlice('\n'); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
