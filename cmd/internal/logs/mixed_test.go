package logs

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"weir/events/adapter"
)

// TestInTime is a law: lines that are at most some places from where they belong come in the order of
// their times, those of one time as they stand.
func TestInTime(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(37, 4))
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf(`{"timestamp":"2026-11-20T%02d:%02d:%02d.000Z","n":%d}`, i/3600, i/60%60, i%60, i))
	}
	shuffled := slices.Clone(lines)
	for i := 0; i < len(shuffled); i += 200 {
		part := shuffled[i : i+200]
		rnd.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
	}
	if mixed, turned := orderOf([]byte(strings.Join(shuffled[:400], "\n"))); !mixed || turned {
		t.Errorf("mixed %v, turned %v", mixed, turned)
	}
	got, err := io.ReadAll(inTime(strings.NewReader(strings.Join(shuffled, "\n"))))
	if want := strings.Join(lines, "\n") + "\n"; err != nil || string(got) != want {
		t.Errorf("%v: %d bytes, want %d", err, len(got), len(want))
	}
	if mixed, turned := orderOf([]byte(strings.Join(lines[:400], "\n"))); mixed || turned {
		t.Errorf("in order: mixed %v, turned %v", mixed, turned)
	}
	slices.Reverse(lines)
	if mixed, turned := orderOf([]byte(strings.Join(lines[:400], "\n"))); mixed || !turned {
		t.Errorf("the newest first: mixed %v, turned %v", mixed, turned)
	}
}

// TestInTimeOfACutLog holds that what stands before the place where a log cannot be read further is given.
func TestInTimeOfACutLog(t *testing.T) {
	t.Parallel()
	text := `{"ts":"2026-11-20T09:00:01Z"}` + "\n" + `{"ts":"2026-11-20T09:00:00Z"}` + "\n"
	got, err := io.ReadAll(inTime(io.MultiReader(strings.NewReader(text+`{"ts":`), iotest.ErrReader(io.ErrUnexpectedEOF))))
	want := `{"ts":"2026-11-20T09:00:00Z"}` + "\n" + `{"ts":"2026-11-20T09:00:01Z"}` + "\n"
	if string(got) != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLineTime(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"type":"x","timestamp":"2026-11-20T09:00:00.000Z"}`:                                        true,
		`{"start_time":"2026-11-20T09:00:00.000000"}`:                                                true,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"endTimeUnixNano":"1795165200000000000"}]}]}]}`: true,
		`{"message":{"timestamp":"2026-11-20T09:00:00.000Z"}}`:                                       false,
		`text`: false,
	} {
		if got := lineTime([]byte(line)); (got != 0) != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestInTimeOfLongLine holds that of a line which is longer than a record may be only the beginning is
// kept.
func TestInTimeOfLongLine(t *testing.T) {
	t.Parallel()
	n, err := io.Copy(io.Discard, inTime(io.MultiReader(strings.NewReader("{}\n"), io.LimitReader(endless('x'), 5*adapter.MaxRecord), strings.NewReader("\n{}\n"))))
	if most := int64(adapter.MaxRecord + 1<<20); err != nil || n <= adapter.MaxRecord || n > most {
		t.Errorf("%v: %d bytes, want more than %d and at most %d", err, n, adapter.MaxRecord, most)
	}
}

// TestPlacesOfMovedLines holds that a line that cannot be read is named by its place in the file, wherever it was put.
func TestPlacesOfMovedLines(t *testing.T) {
	t.Parallel()
	file := func(second func(i int) int, blank, ends string) (text string, line int, offset int64) {
		for i := range 60 {
			at := second(i)
			end := `"type":"user.message","data":{"content":"Go"}}`
			if at == 17 {
				end, line, offset = `"type":`, 1+strings.Count(text, "\n"), int64(len(text))
			}
			text += fmt.Sprintf(`{"id":"e%d","timestamp":"2026-11-20T09:00:%02dZ",%s`, at, at, end) + ends
			if i%7 == 0 {
				text += blank
			}
		}
		return text, line, offset
	}
	for says, second := range map[string]func(i int) int{
		"caco":                    func(i int) int { return i },
		"caco, the newest first,": func(i int) int { return 59 - i },
		"caco, its lines put in the order of time,": func(i int) int { return i/10*10 + (i%10)*7%10 },
	} {
		for _, blank := range []string{"", "\n", "\r\n\n"} {
			for _, ends := range []string{"\n", "\r\n"} {
				text, line, offset := file(second, blank, ends)
				got, told, bad, _ := toldBy(t, "file", text, "caco")
				if got != says || len(told) != 59 || len(bad) != 1 || bad[0].Line != line || bad[0].Byte != offset {
					t.Errorf("%s with %q and %q: %d events, %+v; want %s, 59, and a fault at line %d, byte %d", got, blank, ends, len(told), bad, says, line, offset)
				}
			}
		}
	}
}
