package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// answersReport is what a trial of answers has shown.
type answersReport struct {
	*answers
	log  *answersLog
	took time.Duration
	used time.Duration // of the processors

	rows     []answersRow
	again    int // checks that are in the log again by their id
	notThere int // answered, and not in the log
	tooMany  int // in the log, and never made
	shared   int // orders that refused calls of several flows
}

// answersRow is one driver.
type answersRow struct {
	*driver
	memory, late, lost int
}

// judge compares what was answered with the log.
func (r *answersReport) judge() error {
	made := make(map[string][3]int) // of each flow: allowed, refused, without an answer
	orders := make(map[string]string)
	for _, d := range r.drivers {
		row := answersRow{driver: d}
		for _, s := range d.seen.Silent {
			row.sort(s, r.weirs.away)
		}
		r.rows = append(r.rows, row)
		if err := readMade(d.flows.Name(), made); err != nil {
			return err
		}
		for order, flow := range d.seen.Orders {
			if orders[order] != "" && orders[order] != flow {
				r.shared++
			}
			orders[order] = flow
		}
	}
	counts, again := r.log.counted()
	r.again = again
	for flow, m := range made {
		logged := counts[flow]
		// A stopped flow has the checks that waited for the stop as well.
		if logged < m[0] {
			r.notThere += m[0] - logged
		}
		if most := m[0] + m[1] + m[2]; logged > most && !strings.HasPrefix(flow, "stopped-") {
			r.tooMany += logged - most
		}
	}
	return nil
}

// soonAnswered is how long before a kill a check may have begun that has no answer because of it.
const soonAnswered = 10 // seconds

// sort counts a check that weir did not answer. One that no kill of weir touches is late, if weir said
// that it has no answer in time or was not reached, and lost if nothing came.
func (r *answersRow) sort(s interval, away []interval) {
	switch {
	case slices.ContainsFunc(away, func(a interval) bool { return s[0] <= a[1] && s[1] >= a[0] && s[0] >= a[0]-soonAnswered }):
		r.memory++
	case s[1]-s[0] > (answerTimeout - 5*time.Second).Seconds():
		r.lost++
	default:
		r.late++
	}
}

// readMade adds the flows of a file.
func readMade(name string, made map[string][3]int) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		var flow string
		var n [3]int
		if _, err := fmt.Sscan(in.Text(), &flow, &n[0], &n[1], &n[2]); err != nil {
			return fmt.Errorf("%s: %q: %w", name, in.Text(), err)
		}
		m := made[flow]
		for i := range m {
			m[i] += n[i]
		}
		made[flow] = m
	}
	return in.Err()
}

// ok reports whether each check has had one answer, its own, and the log agrees.
func (r *answersReport) ok() bool {
	for _, row := range r.rows {
		// A busy weir may say that it has no answer in time, but not always.
		if row.seen.Wrong+row.seen.Doubled+row.lost > 0 || row.late >= row.seen.Answered {
			return false
		}
	}
	return r.notThere+r.tooMany+r.shared+r.log.differences+len(r.log.first) == 0
}

// print writes a table in Markdown, and behind it what was wrong.
func (r *answersReport) print(w io.Writer) {
	where := "one weir"
	if r.weirs.group {
		where = "three members on " + r.weirs.storm.server.kind()
	}
	fmt.Fprintf(w, "\n%s, %s, %d kills of weir, seed %d\n\n", where, r.lasts, len(r.weirs.away), r.seed)
	fmt.Fprintf(w, "| guard | way | in flight | asked | answered by weir | of these refused | weir killed: from memory or none | beside kills: late | wrong | lost | doubled | p50 ms | p99 ms |\n")
	fmt.Fprintf(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	all := newSeen()
	sum := answersRow{driver: &driver{name: "all", seen: all}}
	for _, row := range r.rows {
		row.print(w)
		s := row.seen
		all.Asked, all.Answered, all.Refused, all.Wrong, all.Doubled = all.Asked+s.Asked, all.Answered+s.Answered, all.Refused+s.Refused, all.Wrong+s.Wrong, all.Doubled+s.Doubled
		all.Peak += s.Peak
		sum.memory, sum.late, sum.lost = sum.memory+row.memory, sum.late+row.late, sum.lost+row.lost
		for b, n := range s.Took {
			all.Took[b] += n
		}
	}
	sum.print(w)
	fmt.Fprintf(w, "\n- log: %d records, %d checks of %d flows, %d of them sent again with their id; answered and not in the log: %d; in the log and never made: %d\n",
		r.log.records, len(r.log.asks), len(r.log.names), r.again, r.notThere, r.tooMany)
	fmt.Fprintf(w, "- verdicts: %d; missing, doubled or others than in a fold of the log: %d; orders that refused calls of several flows: %d\n", r.log.verdicts, r.log.differences, r.shared)
	fmt.Fprintf(w, "- weir was away for %.0f s of %.0f s; %.0f answers a second; %.2f of %d cores\n", r.awaySeconds(), r.took.Seconds(), float64(all.Answered)/r.took.Seconds(),
		r.used.Seconds()/r.took.Seconds(), runtime.NumCPU())
	for _, row := range r.rows {
		for _, text := range row.seen.First {
			fmt.Fprintf(w, "WRONG: %s, %s: %s\n", row.name, row.way, text)
		}
	}
	for _, text := range r.log.first {
		fmt.Fprintln(w, "PROBLEM:", text)
	}
	if r.ok() {
		fmt.Fprintln(w, "all is well")
	} else {
		fmt.Fprintln(w, "NOT WELL: see above")
	}
}

func (r *answersRow) print(w io.Writer) {
	s := r.seen
	fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.1f | %.1f |\n", r.name, r.way, s.Peak, s.Asked, s.Answered, s.Refused, r.memory, r.late,
		s.Wrong, r.lost, s.Doubled, s.quantile(0.5), s.quantile(0.99))
}

func (r *answersReport) awaySeconds() (sum float64) {
	for _, a := range r.weirs.away {
		sum += a[1] - a[0]
	}
	return sum
}

// cpu is the time of this process, of those that it has started, and of the broker.
func (w *weirs) cpu() (sum time.Duration) {
	for _, of := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(of, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	// Those that still run.
	var pids []string
	for _, m := range w.members {
		pids = append(pids, strconv.Itoa(m.current().cmd.Process.Pid))
	}
	switch {
	case w.real:
		pid, _ := os.ReadFile(filepath.Join(w.storm.server.dir, "pid"))
		pids = append(pids, strings.TrimSpace(string(pid)))
	case w.group:
		pids = append(pids, strconv.Itoa(w.storm.server.cmd.Process.Pid))
	}
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 14 {
			for _, ticks := range fields[13:15] {
				n, _ := strconv.Atoi(ticks)
				sum += time.Duration(n) * 10 * time.Millisecond
			}
		}
	}
	return sum
}
