package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/operate"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// target is the flags that say where flows and agents are looked for: in a running weir, in the
// state folder of one that does not run, or in logs.
//
// LimitFlags, reading and logs are used only where logs may be named. Two places at once
// are refused, because nothing says which one is meant.
type target struct {
	*client.ServerFlags
	*operate.LimitFlags
	*reading
	state *string
	logs  *cli.List
}

// newTarget declares the flags of where to look, those of logs where withLogs is true.
func newTarget(fs *pflag.FlagSet, withLogs bool) *target {
	// logs is an empty list where no logs may be named, so that callers need no check for nil.
	p := &target{ServerFlags: client.NewServerFlags(fs), logs: &cli.List{}}
	p.state = fs.String("state", "", "look into the state folder `DIR` of a weir that does not run")
	if withLogs {
		p.logs = cli.NewList(fs, "log", "replay `FILE` first; repeatable")
		p.LimitFlags, p.reading = operate.NewLimitFlags(fs), newReading(fs)
	}
	return p
}

// known is what can be asked about flows and agents, wherever they are.
//
// client.Client is one, for a running weir, and pumps are another, for what is in this
// process.
type known interface {
	Flows(ctx context.Context, q pump.FlowQuery) (pump.FlowList, error)
	// View is false for a flow that is not known, by its whole id.
	View(ctx context.Context, flow string) (analyzer.View, bool, error)

	Agents(ctx context.Context, q pump.AgentQuery) (pump.AgentList, error)
	Agent(ctx context.Context, kind events.ScopeKind, id string) (agents.View, bool, error)
	Notes(ctx context.Context, q pump.NoteQuery) (pump.NoteList, error)
	Budgets(ctx context.Context, q pump.BudgetQuery) (pump.BudgetList, error)
}

// open opens the target. The caller calls close at the end.
//
// Without a flag a running weir is asked, at the address that the environment names or the
// usual one.
func (p *target) open(ctx context.Context, env *cli.Env) (k known, close func(), err error) {
	switch {
	case p.Given() && (*p.state != "" || len(*p.logs) > 0), *p.state != "" && len(*p.logs) > 0:
		return nil, nil, cli.Usage("more than one place is named").Advise("give one of --server, --state and --log")
	case *p.state != "":
		return openState(ctx, env, *p.state)
	case len(*p.logs) > 0:
		r, err := p.replay(ctx, env)
		if err != nil {
			return nil, nil, err
		}
		return &pumps{[]*pump.Pump{r.pump}, []*pump.Pump{r.agentPump}}, func() {}, nil
	}
	c, err := p.Client(env)
	return c, func() {}, err
}

// replay folds the logs that --log names. The verdicts are not published: their effects are
// in the state of the flows.
func (p *target) replay(ctx context.Context, env *cli.Env) (*replay, error) {
	limits, err := p.LimitFlags.Limits()
	if err != nil {
		return nil, err
	}
	inputs, err := p.reading.open(env, *p.logs)
	if err != nil {
		return nil, err
	}
	defer closeAll(inputs)
	// Logs are folded before the question is looked at: how a flow stands depends on all of
	// it.
	r, err := newReplay(ctx, limits, func(*events.Verdict) error { return nil })
	if err != nil {
		return nil, err
	}
	// Records that could not be read are reported on standard error; the answer is about the rest.
	_, err = r.read(env, inputs, p.reading)
	r.bad.notice(env)
	return r, err
}

// pumps are what is known in this process of flows and of agents, one for each partition.
type pumps struct{ ofFlows, ofAgents []*pump.Pump }

// Flows and what follows answer as the routes of a running weir do, by the same functions.
func (ps *pumps) Flows(ctx context.Context, q pump.FlowQuery) (pump.FlowList, error) {
	q.Standing = func(flow, root string) ([]*events.Verdict, error) { return ps.standing(ctx, flow, root) }
	return pump.FlowsOf(ps.ofFlows, q)
}

// View asks one partition after the other, because nothing here says how flows were spread.
func (ps *pumps) View(ctx context.Context, flow string) (v analyzer.View, ok bool, err error) {
	for _, p := range ps.ofFlows {
		if v, ok, err = p.View(flow); ok || err != nil {
			break
		}
	}
	if !ok || err != nil {
		return v, ok, err
	}
	orders, err := ps.standing(ctx, v.Flow, v.Root)
	v.Bind(orders)
	return v, ok, err
}

// standing is the active orders about a flow because of its tree, or of one above. A running weir
// knows them from the orders by which it refuses checks. Here no checks are made, so they come
// from the trees.
func (ps *pumps) standing(ctx context.Context, flow, root string) (out []*events.Verdict, err error) {
	trees, err := agents.Trees(cmp.Or(root, flow), func(tree string) (above string, err error) {
		for _, p := range ps.ofAgents {
			if above, err = p.TreeAbove(tree); above != "" || err != nil {
				break
			}
		}
		return above, err
	})
	if err != nil {
		return nil, err
	}
	for _, tree := range trees {
		v, _, err := ps.Agent(ctx, events.ScopeTree, tree)
		if err != nil {
			return nil, err
		}
		for i := range v.Orders {
			if v.Orders[i].Mode == events.ModeEnforce {
				out = append(out, &v.Orders[i])
			}
		}
	}
	return out, nil
}

func (ps *pumps) Agents(_ context.Context, q pump.AgentQuery) (pump.AgentList, error) {
	return pump.AgentsOf(ps.ofAgents, q)
}

// Budgets returns the accounts of budgets over flows.
func (ps *pumps) Budgets(_ context.Context, q pump.BudgetQuery) (pump.BudgetList, error) {
	return pump.BudgetsOf(ps.ofAgents, q)
}

// Agent asks one partition after the other, as View does.
func (ps *pumps) Agent(_ context.Context, kind events.ScopeKind, id string) (v agents.View, ok bool, err error) {
	// The first partition that knows it has it; an agent is in one alone.
	for _, p := range ps.ofAgents {
		if v, ok, err = p.AgentView(pump.AgentKeyOf(kind, id)); ok || err != nil {
			break
		}
	}
	return v, ok, err
}

func (ps *pumps) Notes(_ context.Context, q pump.NoteQuery) (pump.NoteList, error) {
	return pump.NotesOf(ps.ofAgents, q)
}

// openStore opens a state folder that no weir uses now.
func openStore(dir string) (*state.Store, error) {
	// Open would make a folder that is not there, and show a weir that has seen nothing.
	if _, err := os.Stat(dir); err != nil {
		return nil, cli.Failure("state folder: %w", err).Advise("weir run says at its start where its state is")
	}
	// Below 0 it does not wait for the lock: who looks wants to know at once that a weir runs
	// there.
	s, err := state.Open(dir, state.Options{LockWait: -1})
	if errors.Is(err, state.ErrLocked) {
		return nil, cli.Failure("%w", err).Advise("ask the weir that runs there: --server URL")
	}
	return s, err
}

// openState looks into a state folder without changing anything in it.
//
// What it shows is the last checkpoint, which may be older than the last event; a notice
// says by how much. The caller calls the function to close when done with the result, which
// reads from the store as it is asked.
func openState(ctx context.Context, env *cli.Env, dir string) (known, func(), error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, nil, err
	}
	// A partition without a checkpoint is not among them: nothing of it could be shown.
	ps := new(pumps)
	// No checkpoint: a look leaves the folder as it was.
	closeState := func() {
		for _, p := range slices.Concat(ps.ofFlows, ps.ofAgents) {
			p.CloseWithoutCheckpoint()
		}
		if err := s.Close(); err != nil {
			env.Notice("close %s: %v", dir, err)
		}
	}
	partitions, err := s.Partitions()
	for _, n := range partitions {
		var meta state.Meta
		if err == nil {
			meta, _, err = s.Meta(n)
		}
		if err != nil {
			break
		}
		var p *pump.Pump
		stage := pump.StageOf(meta.State)
		// The limits of the checkpoint are read by Parse; the default ones are for a state
		// that has none.
		p, err = pump.New(ctx, pump.Options{Partition: n, Stage: stage, Limits: limitfile.Default(), Store: s, Sink: nowhere{},
			Parse: func(doc []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits", doc) }})
		if err != nil {
			break
		}
		if stage == pump.AgentStage {
			ps.ofAgents = append(ps.ofAgents, p)
			continue
		}
		ps.ofFlows = append(ps.ofFlows, p)
		// Of a member of a group the journal is empty, and nothing is said.
		if left := s.Journal(n).End() - p.Next(); left > 0 {
			env.Notice("%s: this is the last checkpoint; %s of the journal came after it", dir, cli.Count(int64(left), "record"))
		}
	}
	if err != nil {
		closeState()
		return nil, nil, err
	}
	return ps, closeState, nil
}

// nowhere is the sink of pumps that only look.
type nowhere struct{}

// Emit is never called: nothing is folded by these pumps.
func (nowhere) Emit(context.Context, []pump.Emitted) (int64, error) {
	return 0, errors.New("nothing is written while looking")
}

// Since reports nothing: no verdict is left out as one that is there already.
func (nowhere) Since(_ context.Context, from int64, _ func(string, int64)) (int64, error) {
	return from, nil
}

// find returns the flow of that name, or the only one whose name begins so.
//
// Ids are long, and the beginning is what people copy. Only the flows used last are looked
// through, so an old one has to be named in full. If there is none, the error helps to
// find what was meant.
func find(ctx context.Context, k known, name string) (analyzer.View, error) {
	v, ok, err := k.View(ctx, name)
	if ok || err != nil {
		return v, err
	}
	// Enough to find what was at work lately, and little enough to ask for each time.
	list, err := k.Flows(ctx, pump.FlowQuery{Limit: 1000})
	if err != nil {
		return v, err
	}
	var names, begin []string
	for i := range list.Flows {
		names = append(names, list.Flows[i].Flow)
		if strings.HasPrefix(list.Flows[i].Flow, name) {
			begin = append(begin, list.Flows[i].Flow)
		}
	}
	// Between the two questions it may have gone; then it is as if there were none.
	if len(begin) == 1 {
		if v, ok, err = k.View(ctx, begin[0]); ok || err != nil {
			return v, err
		}
	}
	f := cli.Failure("there is no flow %q among %d", name, len(names))
	switch near := spelling.Nearest(name, names); {
	case len(begin) > 1:
		return v, cli.Failure("%q may be one of %d flows", name, len(begin)).Advise("for example %s", begin[0])
	case near != "":
		return v, f.Advise("did you mean %s", near)
	case len(names) > 0:
		return v, f.Advise("for example %s; weir flows ls lists them", names[0])
	}
	return v, fmt.Errorf("there is no flow %q, nor any other", name)
}
