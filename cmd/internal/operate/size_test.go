package operate

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSizeOfWhatGrew holds what is computed against each row of growth that was measured: never
// less than that, and not so much more that the figure is useless.
func TestSizeOfWhatGrew(t *testing.T) {
	page, err := os.ReadFile("../../weir/PERFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## How it grows")
	number := regexp.MustCompile(`[0-9][0-9,]*(\.[0-9]+)?`)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 9 {
			continue
		}
		// The larger one of a range counts.
		last := func(cell int) float64 {
			found := number.FindAllString(cells[cell], -1)
			if len(found) == 0 {
				return 0
			}
			n, err := strconv.ParseFloat(strings.ReplaceAll(found[len(found)-1], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		flows, events := last(1), last(3)
		if flows == 0 {
			continue // the head
		}
		rows++
		partitions, err := strconv.Atoi(number.FindString(strings.ReplaceAll(cells[2], ", ", " ")))
		if err != nil {
			t.Fatal(err)
		}
		if micros := last(4); partitions <= perProcess && micros > foldMicros {
			t.Errorf("%s: an event costs more than %v µs", line, foldMicros)
		}
		l := load{eventsADay: events, peak: 1, flows: flows, perFlow: events / flows, eventBytes: 350, partitions: partitions, members: 1, coresA: 4,
			memoryMiB: 512, retention: 24 * time.Hour}
		for _, s := range l.sizes() {
			var measured float64
			switch s.What {
			case "memory of a member":
				measured = last(6)
				if s.Amount > 2.5*measured {
					t.Errorf("%s: memory is computed as %.0f MiB", line, s.Amount)
				}
			case "disk of a member":
				measured = last(7) / 1024
			}
			if s.Amount < measured {
				t.Errorf("%s: %s is computed as %.2f %s", line, s.What, s.Amount, s.Unit)
			}
		}
	}
	// With less for flows the rest stays.
	for partitions, measured := range map[int]float64{8: 1051, 64: 1937} {
		l := load{eventsADay: 5e6, peak: 1, flows: 1e6, perFlow: 5, eventBytes: 350, partitions: partitions, members: 1, coresA: 4, memoryMiB: 100, retention: 24 * time.Hour}
		for _, s := range l.sizes() {
			if s.What == "memory of a member" && (s.Amount < measured || s.Amount > 1.5*measured) {
				t.Errorf("with --memory 100 a million flows over %d partitions are computed to take %.0f MiB, and took %.0f", partitions, s.Amount, measured)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows of growth were found", rows)
	}
}

// TestSizeOfLiveTraffic does the same with processor time under steady traffic, without what is
// planned to be left free.
func TestSizeOfLiveTraffic(t *testing.T) {
	for _, live := range []struct {
		rate       float64
		partitions int
		cores      float64
	}{{500, 4, 0.04}, {2000, 4, 0.07}, {8000, 4, 0.14}, {2000, 64, 0.15}} {
		l := load{eventsADay: live.rate * 86_400, peak: 1, flows: 1, perFlow: 20, eventBytes: 350, partitions: live.partitions, members: 1, coresA: 4, memoryMiB: 512, retention: time.Hour}
		for _, s := range l.sizes() {
			if free := live.rate * foldMicros / 1e6 * (1/planned - 1); s.What == "cores of a member" && s.Amount-free < live.cores {
				t.Errorf("%v events a second over %d partitions are computed to take %.3f cores, and took %v", live.rate, live.partitions, s.Amount-free, live.cores)
			}
		}
	}
}
