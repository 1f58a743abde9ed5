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
)

// soak is a storm that lasts: all faults in its first half, and in its second one those that
// no member ends by, so that what each of them takes has to stay the same.
type soak struct {
	lasts time.Duration // 0 for a storm of so many faults
	away  time.Duration // how long the broker stays away
	plot  string        // file for what was measured, as CSV; "" for none

	mu      sync.Mutex
	members []*member
	taken   []taken
}

// taken is what a process takes in one second.
type taken struct {
	second, process int
	amounts         [len(amounts)]int
}

var amounts = [...]string{"resident_mib", "descriptors", "goroutines", "series"}

// soakRate is how many events happen in a second of a soak.
const soakRate = 500

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
	lasts := s.soak.lasts
	if s.soak.away == 0 {
		s.soak.away = lasts / 12
	}
	s.events = soakRate * int(lasts.Seconds())
	s.flows = max(100, s.events/20)
	well, err := s.blow(ctx)
	if err == nil && !well {
		err = errors.New("the soak shows: see above")
	}
	return err
}

// schedule is what happens, with the broker away once in each half.
func (k *soak) schedule(seed uint64) []moment {
	half := k.lasts / 2
	n := max(2, int(half/(20*time.Second)))
	ending := faults{hardExits: n / 2, joins: n / 6, loseStates: 1, freezes: 1}.schedule(seed, half/time.Duration(n+2))
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
func (k *soak) flags(dir string) ([]string, error) {
	if k.lasts == 0 {
		return nil, nil
	}
	port, err := freePort(1)
	return []string{"--metrics", fmt.Sprintf("127.0.0.1:%d", port), "--limits", filepath.Join(dir, "limits.yaml")}, err
}

// otherLimits gives all members other limits, which they take up by themselves.
func (s *storm) otherLimits() error {
	text := fmt.Sprintf("profile: balanced\nrules: {max_total_calls: {max: %d}}\n", 100+s.random.IntN(50))
	return os.WriteFile(filepath.Join(s.dir, "limits.yaml"), []byte(text), 0o600)
}

func (k *soak) add(m *member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.members, m) {
		k.members = append(k.members, m)
	}
}

func (k *soak) all() []*member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.members)
}

// watch notes each second what the members take, until ctx ends.
func (k *soak) watch(ctx context.Context) {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for begun := time.Now(); ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		for _, m := range k.all() {
			r := m.current()
			t := taken{second: int(time.Since(begun).Seconds()), process: r.cmd.Process.Pid}
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.process))
			if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
				_, _ = fmt.Sscan(rest, &t.amounts[0])
				t.amounts[0] >>= 10
			}
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.process))
			t.amounts[1] = len(open)
			if resp, err := client.Get("http://" + m.flags[1] + "/metrics"); err == nil {
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
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
func (k *soak) follow(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		one, cancel := context.WithTimeout(ctx, time.Second)
		if all := k.all(); len(all) > 0 {
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
			middle := func(part []taken) int {
				var all []int
				for _, t := range part {
					all = append(all, t.amounts[i])
				}
				slices.Sort(all)
				return all[len(all)/2]
			}
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
