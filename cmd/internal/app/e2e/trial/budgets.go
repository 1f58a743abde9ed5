package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/pump"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/guard"
)

// teamDay is a limits file of seven lines: the time zone and the dollars a day for each team are to be filled in.
const teamDay = `budgets:
- name: team-day
  scope: team
  window: day
  zone: %s
  hard: %d
  reserve: 0.02
`

// callMicros is the most that a call costs, in millionths of a dollar, which is what is reserved for it.
// So a dollar is about 59 calls.
const callMicros = 20_000

// market is a trial of a daily budget of a team that 1,000 flows spend in a group of three, through
// hard exits. A team whose callers check spends at most the budget. A team whose callers only follow
// verdicts leaks calls, of which the bound is computed beforehand.
type market struct {
	*trio
	kills, callers int
	dollars        int64
	// latency is how long an order may take from the report that brings it to a dispatcher, in a group
	// in which all partitions are folded.
	latency time.Duration
	settled chan struct{} // closed when the kills are over and all members have caught up
}

// callTime is how long a call of the stream lasts, as one of a tool does.
const callTime = 20 * time.Millisecond

func (m *market) micros() int64 { return m.dollars * 1_000_000 }

// lastMark is the number of calls when the last member is killed.
func (m *market) lastMark() int64 { return 50 * m.dollars }

// leak is how many calls beyond the budget the stream may make, which is known beforehand: what all
// callers make until an order arrives, one call for each flow, because the order of a team binds each
// flow by its first report, and one for each caller.
func (m *market) leak() int64 {
	rate := float64(m.callers) / callTime.Seconds()
	return int64(rate*m.latency.Seconds()) + int64(m.flows) + int64(m.callers)
}

// purse is what one team did.
type purse struct {
	team                         string
	next, calls, refused, micros atomic.Int64
	full                         atomic.Int64 // calls when the budget was spent; 0 before
}

// pay counts a call that is made, of a budget.
func (p *purse) pay(micros, budget int64) {
	calls := p.calls.Add(1)
	if p.micros.Add(micros) >= budget {
		p.full.CompareAndSwap(0, calls)
	}
}

// budgetsCommand reads the flags of the trial.
func budgetsCommand(ctx context.Context, args []string) error {
	s := &storm{out: os.Stdout}
	m := &market{callers: 16, dollars: 50}
	fs := flag.NewFlagSet("trial budgets", flag.ExitOnError)
	fs.BoolVar(&s.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.IntVar(&s.flows, "flows", 1000, "of each team")
	fs.IntVar(&s.partitions, "partitions", 64, "of the topics")
	fs.IntVar(&m.kills, "kills", 5, "hard exits of members for each team")
	fs.DurationVar(&m.latency, "latency", 2*time.Second, "from a report to its order at a dispatcher, for the bound of the stream")
	fs.BoolVar(&s.keep, "keep", false, "leave logs and data, also when all is well")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ok, err := m.run(ctx, s)
	if err == nil && !ok {
		err = fmt.Errorf("the budget does not hold: see above")
	}
	return err
}

// run reports whether both teams spent no more than they may and a replay gives the same bytes.
func (m *market) run(ctx context.Context, s *storm) (ok bool, err error) {
	m.trio, err = newTrio(ctx, s, "weir-budgets-", func(dir string) ([]string, error) {
		file := filepath.Join(dir, "limits.yaml")
		return []string{"--limits", file}, os.WriteFile(file, fmt.Appendf(nil, teamDay, weirtest.Zone(time.Now()), m.dollars), 0o600)
	}, itself)
	defer func() { err = errors.Join(err, m.end(ok && err == nil)) }()
	if err != nil {
		return false, err
	}
	checks, stream := &purse{team: "payments"}, &purse{team: "search"}
	if err := m.spend(ctx, checks, m.checked); err != nil {
		return false, err
	}
	if err := m.streamed(ctx, stream); err != nil {
		return false, err
	}
	if _, _, err := m.folded(ctx); err != nil {
		return false, err
	}
	r := result{storm: m.storm}
	accounts, err := m.accounts(ctx)
	if err != nil {
		return false, err
	}
	if err := m.settle(ctx, &r); err != nil {
		return false, err
	}
	if err := m.judge(ctx, &r); err != nil {
		return false, err
	}
	return m.print(checks, stream, accounts, &r), nil
}

// bill is the n-th call of a team, with its model call and result, and what it costs.
func (m *market) bill(p *purse, n int64) (call, model, result *events.Event, micros int64) {
	at := events.StampOf(time.Now())
	of := func(kind events.Kind, what string) *events.Event {
		ev := &events.Event{ID: fmt.Sprint(what, "-", n), Source: "market", Kind: kind, Time: at, CorrelationID: fmt.Sprint(p.team, "-", n%int64(m.flows)),
			TeamID: p.team, From: events.Party{Session: "worker"}}
		if kind != events.LLMCall {
			ev.Tool.Name, ev.Tool.CallID, ev.Tool.ArgsHash = "search", fmt.Sprint("c", n), events.Hash{Algorithm: events.XXH64, Value: uint64(n) + 1}
		}
		return ev
	}
	call, model, result = of(events.ToolCall, "call"), of(events.LLMCall, "model"), of(events.ToolResult, "result")
	micros = callMicros - n%7*1000
	model.Usage = events.Usage{Known: true, Input: 1, Total: 1, CostMicroUSD: micros}
	result.Status, result.Content = events.StatusOK, call.Tool.ArgsHash
	return call, model, result, micros
}

// spend lets callers make calls until enough are refused, while members are killed.
func (m *market) spend(ctx context.Context, p *purse, call func(context.Context, *purse) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.settled = make(chan struct{})
	var work sync.WaitGroup
	for range m.callers {
		work.Go(func() {
			for p.refused.Load() < int64(2*m.flows) && ctx.Err() == nil {
				if err := call(ctx, p); err != nil {
					cancel(err)
				}
			}
		})
	}
	var marks []int64
	for i := range m.kills {
		marks = append(marks, int64(i+1)*m.lastMark()/int64(m.kills))
	}
	if err := errors.Join(m.strikeAt(ctx, marks, p.calls.Load), m.ready(ctx)); err != nil {
		cancel(err)
	}
	close(m.settled)
	work.Wait()
	return context.Cause(ctx)
}

// checked makes a call if weir allows it.
func (m *market) checked(ctx context.Context, p *purse) error {
	call, model, result, micros := m.bill(p, p.next.Add(1))
	call.Ask = true
	may, err := m.may(ctx, call)
	if err != nil {
		return err
	}
	if !may {
		p.refused.Add(1)
		return nil
	}
	p.pay(micros, m.micros())
	return m.report(ctx, model, result)
}

// streamed has callers that never check: a guard that follows a member refuses what the orders refuse.
func (m *market) streamed(ctx context.Context, p *purse) error {
	g, err := guard.New(guard.Options{URL: "http://" + m.members[0].listen, Quiet: true, StaleAfter: 5 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Wait(ctx); err != nil {
		return err
	}
	return m.spend(ctx, p, func(ctx context.Context, p *purse) error {
		call, model, result, micros := m.bill(p, p.next.Add(1))
		c, _ := guard.CallOf(call)
		if p.calls.Load() >= m.lastMark() { // the bound is that of a group that folds
			<-m.settled
		}
		if d := g.Check(ctx, c); d.Stopped() && d.Source == guard.FromTable {
			p.refused.Add(1)
			return nil
		}
		p.pay(micros, m.micros())
		<-time.After(callTime)
		return m.report(ctx, call, model, result)
	})
}

// accounts returns what the accounts of all teams say.
func (m *market) accounts(ctx context.Context) (map[string]float64, error) {
	spent := make(map[string]float64)
	for _, one := range m.members {
		var list pump.BudgetList
		if err := m.get(ctx, one, "/v1/budgets", &list); err != nil {
			return nil, err
		}
		for _, a := range list.Budgets {
			spent[a.Value] += a.Spent
		}
	}
	return spent, nil
}

// print reports what was spent, and whether that is right.
func (m *market) print(checks, stream *purse, accounts map[string]float64, r *result) bool {
	leaked := stream.calls.Load() - stream.full.Load()
	ok := true
	row := func(right bool, format string, args ...any) {
		word := "ok    "
		if !right {
			word, ok = "FAULT ", false
		}
		fmt.Fprintln(m.out, word+fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(m.out, "%s, %d partitions, three members, %d flows and %d callers for each team, %d hard exits for each team\n", m.server.kind(), m.partitions, m.flows, m.callers, m.kills)
	row(checks.micros.Load() <= m.micros(), "by checks: %d calls made, %d refused, $%.6f of $%d spent; the account says $%.6f", checks.calls.Load(), checks.refused.Load(), float64(checks.micros.Load())/1e6, m.dollars, accounts[checks.team])
	row(sameMoney(accounts[checks.team], checks.micros.Load()), "by checks: the account has what was spent")
	row(stream.full.Load() > 0 && leaked <= m.leak(), "by stream: %d calls made, $%.6f spent; %d calls leaked, at most %d may", stream.calls.Load(), float64(stream.micros.Load())/1e6, leaked, m.leak())
	row(sameMoney(accounts[stream.team], stream.micros.Load()), "by stream: the account has what was spent, $%.6f", accounts[stream.team])
	row(!r.difference.any() && !r.agentDifference.any(), "replay: %d verdicts of flows and %d of accounts, byte for byte", len(r.published.verdicts), len(r.ofAgents.verdicts))
	row(r.onlyFold+r.onlyReplay == 0, "weir replay says the same (%d, %d)", r.onlyFold, r.onlyReplay)
	for _, line := range append(r.difference.first, r.agentDifference.first...) {
		fmt.Fprintln(m.out, line)
	}
	for _, problem := range m.problems {
		row(false, "%s", problem)
	}
	return ok
}

// sameMoney compares dollars with millionths of a dollar.
func sameMoney(dollars float64, micros int64) bool { return int64(math.Round(dollars*1e6)) == micros }
