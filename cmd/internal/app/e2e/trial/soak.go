package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/cmd/weirtest"
)

// soak is a storm that lasts: all faults in its first half, and in its second one those that
// no member ends by, so that what each of them takes has to stay the same.
// Growth shows only over time, and only in a process that lives: after the kills of the
// first half the second one leaves the members alone.
type soak struct {
	lasts time.Duration // 0 for a storm with a fixed number of faults
	away  time.Duration // how long the broker stays away
	plot  string        // file for what was measured, as CSV; "" for none

	// mu guards members. taken is written by watch alone and read when that has ended.
	mu      sync.Mutex
	members []*member
	taken   []taken
}

// taken is what a process takes in one second.
// A process is known by its pid, for a member that was started again begins anew.
type taken struct {
	second, process int
	amounts         [len(amounts)]int
}

// Series are lines of /metrics: they grow when a label has ever more values.
var amounts = [...]string{"private_mib", "descriptors", "goroutines", "series"}

// soakRate is how many events happen in a second of a soak.
// It is little for a member, so what grows is no backlog.
const soakRate = 500

// soakCommand reads the flags of a soak. The number of events follows from how long it
// lasts.
func soakCommand(ctx context.Context, args []string) error {
	s := &storm{out: os.Stdout, flows: 0, soak: &soak{}}
	fs := flag.NewFlagSet("trial soak", flag.ExitOnError)
	fs.BoolVar(&s.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.DurationVar(&s.soak.lasts, "for", time.Hour, "how long")
	fs.DurationVar(&s.soak.away, "away", 0, "how long the broker stays away each time; a twelfth of all by default")
	fs.StringVar(&s.soak.plot, "plot", "", "write what was measured to this `FILE` as CSV")
	fs.IntVar(&s.partitions, "partitions", 6, "of the topics")
	fs.Uint64Var(&s.seed, "seed", 1, "of the traffic and the faults")
	fs.BoolVar(&s.keep, "keep", false, "leave logs and data, also when all is well")
	if err := fs.Parse(args); err != nil {
		return err
	}
	// Everything else follows from how long it lasts.
	lasts := s.soak.lasts
	if s.soak.away == 0 {
		s.soak.away = lasts / 12
	}
	s.events = soakRate * int(lasts.Seconds())
	// Twenty events each, as in other trials.
	s.flows = max(100, s.events/20)
	well, err := s.blow(ctx)
	if err == nil && !well {
		err = errors.New("the soak shows: see above")
	}
	return err
}

// schedule is what happens, with the broker away once in each half.
// The first half of an hour has some eighty faults.
func (k *soak) schedule(seed uint64) []moment {
	// Pauses are shares of the whole, so that a short soak has the same shape as a long
	// one.
	half := k.lasts / 2
	n := max(2, int(half/(20*time.Second)))
	ending := faults{hardExits: n / 2, joins: n / 6, loseStates: 1, freezes: 1}.schedule(seed, half/time.Duration(n+2))
	// The outage comes early, so that the faults of the first half also fall into it.
	plan := append([]moment{{half / 20, otherLimits}, {half / 20, brokerDown}}, ending...)
	lasts := func() (all time.Duration) {
		for _, m := range plan {
			all += m.pause
		}
		return all
	}
	plan = append(plan, moment{max(0, half-lasts()), otherLimits}, moment{half / 4, brokerDown})
	for range 4 {
		plan = append(plan, moment{half / 8, otherLimits})
	}
	return append(plan, moment{half / 4, otherLimits})
}

// begin starts the first members and waits until their limits are in the log: before that each
// folds by its own.
// Otherwise the oracle, which has them from the log, would judge the first events by
// others.
func (s *storm) begin(ctx context.Context) error {
	if err := s.otherLimits(); err != nil {
		return err
	}
	for range 2 {
		if err := s.join(); err != nil {
			return err
		}
	}
	return eventually(ctx, time.Minute, "the first members to be ready", func() (bool, error) {
		for _, m := range s.members {
			if _, ready := m.current().times(); ready == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// flags are those of a member beside the usual ones.
// A storm has none: its members keep the default limits. The port of metrics is fixed,
// since watch reads it by flags[1].
func (k *soak) flags(dir string) ([]string, error) {
	if k.lasts == 0 {
		return nil, nil
	}
	// The listener of each member has to be known before it starts.
	port, err := weirtest.Ports(1)
	return []string{"--metrics", fmt.Sprintf("127.0.0.1:%d", port), "--limits", filepath.Join(dir, "limits.yaml")}, err
}

// otherLimits gives all members other limits, which they take up by themselves.
// Only one budget changes, by chance; so each version is another one, and flows are stopped
// by it sooner or later.
func (s *storm) otherLimits() error {
	text := fmt.Sprintf("profile: balanced\nrules: {max_total_calls: {max: %d}}\n", 100+s.random.IntN(50))
	return os.WriteFile(filepath.Join(s.dir, "limits.yaml"), []byte(text), 0o600)
}

// add notes a member to watch. One that comes back is known already.
func (k *soak) add(m *member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.members, m) {
		k.members = append(k.members, m)
	}
}

// all are those that ever joined; who does not run now is asked in vain.
func (k *soak) all() []*member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.members)
}

// watch notes each second what the members take, until ctx ends.
// It runs in a goroutine of its own. Who is frozen or starting is left out of that second.
func (k *soak) watch(ctx context.Context) {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	// A second in which a member answers late is noted late; the next tick follows as ever.
	for begun := time.Now(); ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		for _, m := range k.all() {
			r := m.current()
			t := taken{second: int(time.Since(begun).Seconds()), process: r.cmd.Process.Pid}
			// The kernel's figures, since a process that leaks may not say so itself.
			t.amounts[0] = int(ownMemory(t.process) >> 20)
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.process))
			t.amounts[1] = len(open)
			// flags[1] is the address, see flags.
			if resp, err := client.Get("http://" + m.flags[1] + "/metrics"); err == nil {
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				// Lines that begin with # are about a metric and no series.
				for line := range strings.Lines(string(text)) {
					if !strings.HasPrefix(line, "#") {
						t.amounts[3]++
					}
					_, _ = fmt.Sscanf(line, "go_goroutines %d", &t.amounts[2])
				}
			}
			if t.amounts[0] > 0 && t.amounts[3] > 0 { // else it has ended, or is being started
				k.taken = append(k.taken, t)
			}
		}
	}
}

// follow lets followers of the verdicts come and go, until ctx ends.
// Each stays a second. What a follower leaves behind when it goes would grow by the second.
func (k *soak) follow(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		// The request ends with it, in the middle of the stream, as a dispatcher that is
		// restarted.
		one, cancel := context.WithTimeout(ctx, time.Second)
		if all := k.all(); len(all) > 0 {
			// What fails is left out: members come and go, and that is judged elsewhere.
			if req, err := http.NewRequestWithContext(one, http.MethodGet, "http://"+all[n%len(all)].listen+"/v1/verdicts?since=now", nil); err == nil {
				req.Header.Set("Accept", "text/event-stream")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		}
		<-one.Done()
		cancel()
	}
}

// judge says what the members took that lived through the second half, and what grew.
// A process that was watched for less than a third of the soak is left out. Of each other
// one the medians of its second and its last quarter are compared; up to a quarter more and
// 32 is taken for noise, of MiB as of goroutines.
func (k *soak) judge(out io.Writer) (problems []string) {
	var lines [][]string
	of := make(map[int][]taken)
	for _, t := range k.taken {
		line := []string{strconv.Itoa(t.second), strconv.Itoa(t.process)}
		for _, n := range t.amounts {
			line = append(line, strconv.Itoa(n))
		}
		lines = append(lines, line)
		of[t.process] = append(of[t.process], t)
	}
	// The curve shows why something grew.
	if k.plot != "" {
		f, err := os.Create(k.plot)
		if err == nil {
			err = errors.Join(csv.NewWriter(f).WriteAll(append([][]string{append([]string{"second", "process"}, amounts[:]...)}, lines...)), f.Close())
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	lived := 0
	for process, list := range of {
		if list[len(list)-1].second-list[0].second < int(k.lasts.Seconds())/3 {
			continue
		}
		lived++
		for i, what := range amounts {
			// A median, since one collection of garbage more or less moves every single
			// figure.
			middle := func(part []taken) int {
				var all []int
				for _, t := range part {
					all = append(all, t.amounts[i])
				}
				slices.Sort(all)
				return all[len(all)/2]
			}
			// The first quarter is left out: there caches fill.
			early, late := middle(list[len(list)/4:len(list)/2]), middle(list[len(list)*3/4:])
			fmt.Fprintf(out, "process %d, %d s: %s %d in the middle, %d at the end\n", process, list[len(list)-1].second-list[0].second, what, early, late)
			if slack := early/4 + 32; late > early+slack {
				problems = append(problems, fmt.Sprintf("%s of process %d grows: from %d to %d", what, process, early, late))
			}
		}
	}
	if lived == 0 {
		problems = append(problems, "no member lived through the second half")
	}
	return problems
}
