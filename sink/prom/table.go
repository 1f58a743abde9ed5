package prom

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/events"
	"weir/events/adapter"
)

// table lists the metrics. A rate needs the first of its sort, too, so every counted thing is
// there from the start, at 0.
// The order is that in which people read it: input, verdicts, live flows and agents, and the state of
// weir.
func table() []row {
	return slices.Concat(intake, judged, live, agentStage, accounts, spent(), partitions, store, limits, itself)
}

// intake is what came in, and what did not.
var intake = []row{
	{name: "events_total", help: "Events that were read from the log, by what became of them.", kind: counter, labels: []string{"kind", "outcome"},
		read: func(r *Reading, to *series) {
			for _, k := range events.Kinds() {
				// Ticks and limits are folded and nothing else; expired ones have a row of their
				// own.
				for o := Folded; o < Expired; o++ {
					if k != events.LimitsSet && k != events.Tick || o == Folded {
						to.count(r.Events[k][o], k.String(), outcomes[o])
					}
				}
			}
		}},
	// One figure for all kinds, since it means one thing: a source is far behind.
	{name: "events_expired_total", help: "Events that came so late that nobody can tell whether they had been folded.", kind: counter,
		read: func(r *Reading, to *series) {
			expired := int64(0)
			for _, k := range events.Kinds() {
				expired += r.Events[k][Expired]
			}
			to.count(expired)
		}},
	{name: "events_clamped_total", help: "Events stamped later than they were appended, folded at the time of the append.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Fold.Clamped })},
	{name: "events_rejected_total", help: "Records that became dead letters.", kind: counter, labels: []string{"reason"},
		read: func(r *Reading, to *series) {
			for i, n := range r.Rejected {
				to.count(n, string(rejections[i]))
			}
		}},
	{name: "dead_letters_dropped_total", help: "Dead letters that were counted and not kept, because too many came.", kind: counter,
		read: one(func(r *Reading) int64 { return r.NotKept })},
	{name: "events_misnamed_total", help: "Events that lack a field and have one of nearly its name, such as form for from; what stands there is ignored.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Misnamed })},
	{name: "events_misplaced_total", help: "Records of events whose flow may be split over partitions, by what is wrong with their key.", kind: counter, labels: []string{"reason"},
		read: each(misplacements[:], func(r *Reading) []int64 { return r.Misplaced[:] })},
	{name: "intake_memory_bytes", help: "Bytes that requests hold while they are taken in.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Intake.Held })},
	{name: "intake_memory_limit_bytes", help: "Bytes that they may hold, all together.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Intake.Limit })},
	{name: "intake_refused_total", help: "Requests that were told to come again, because others held all there is.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Intake.Refused })},
	{name: "ingest_bytes_total", help: "Bytes of the records that were read from the log.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Bytes })},
	// By source would be as many series as producers have names; /readyz says which it is.
	{name: "source_coverage_ratio", help: "Share of the calls of all sources that tell what rules need, 1 while there are none; rules that need what is at 0 are blind.", kind: gauge, labels: []string{"what"},
		read: func(r *Reading, to *series) {
			for _, ratio := range r.Coverage.Ratios() {
				// Without calls there is nothing to be blind to, and an alert must not fire on
				// an idle weir.
				share := 1.0
				if ratio.Of > 0 {
					share = float64(ratio.Told) / float64(ratio.Of)
				}
				to.is(share, strings.ReplaceAll(ratio.What, " ", "_"))
			}
		}},
	{name: "unpriced_calls", help: "Calls of models since the start of which neither a cost nor a price is known; limits in US dollars do not count them.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Coverage.Unpriced() })},
	{name: "spans_without_event_total", help: "Spans that were received and gave no event, by why; unknown are those in which nothing says that they are about an agent, a tool or a model.", kind: counter, labels: []string{"reason"},
		read: func(r *Reading, to *series) {
			for why, n := range r.Silent {
				to.count(n, adapter.Silence(why).String())
			}
		}},
	{name: "calls_total", help: "Calls of agents, by who set them off.", kind: counter, labels: []string{"origin"},
		read: func(r *Reading, to *series) {
			for o := events.OriginUser; o < OriginCount; o++ {
				to.count(r.Calls[o], o.String())
			}
		}},
}

// judged are the verdicts on flows and their results.
var judged = []row{
	{name: "verdicts_total", help: "Verdicts that were published.", kind: counter, labels: []string{"rule", "action", "mode"}, read: readVerdicts},
	{name: "stops_total", help: "Stops of flows: incidents in which a call was refused, each counted once, by the reason that refused first.", kind: counter, labels: []string{"rule"}, read: readStops},
	{name: "calls_after_stop_total", help: "Calls that were made although a standing order refused them: a dispatcher does not honor verdicts.", kind: counter, labels: []string{"rule"},
		read: ordered(func(n *activity.Met) int64 { return n.Defied })},
	{name: "leaked_calls_total", help: "Calls that were in flight when an order against them went out.", kind: counter, labels: []string{"rule"},
		read: ordered(func(n *activity.Met) int64 { return n.Leaked })},
	{name: "refused_calls_total", help: "Calls that were refused when they were asked for, or by a dispatcher that says so.", kind: counter, labels: []string{"rule"},
		read: ordered(func(n *activity.Met) int64 { return n.Refused })},
	{name: "grants_total", help: "Times that a person granted a flow more of a limit.", kind: counter, labels: []string{"rule"}, read: readGrants},
	{name: "verdict_acks_total", help: "What dispatchers reported of orders; other is about none that stands for a flow.", kind: counter, labels: []string{"rule", "applied"}, read: readAcks},
	{name: "verdicts_unsent", help: "Verdicts that wait to be published.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Unsent })},
	{name: "verdict_publish_errors_total", help: "Tries to publish verdicts or dead letters that failed; they are repeated.", kind: counter, labels: []string{"class"},
		read: each(troubles[:], func(r *Reading) []int64 { return r.Unpublished[:] })},
}

// live is the flows in memory. A flow is live from an event until it was silent for flow.idle.
var live = []row{
	{name: "flows_live", help: "Flows in memory with an event within the time of silence that ends an episode; held ones as long as they wait for a person.", kind: gauge, labels: []string{"status"},
		read: each([]string{"active", "warned", "stopped", "held"}, func(r *Reading) []int64 { return r.Live[:] })},
	{name: "flows_opened_total", help: "Flows that became live.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Opened })},
	{name: "flows_closed_total", help: "Flows that are live no more.", kind: counter, labels: []string{"reason"},
		read: each(closings[:], func(r *Reading) []int64 { return r.Closed[:] })},
	{name: "flow_longest_allowed_chain", help: "Calls of agents in the longest flow that was closed without ever being stopped.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Longest })},
	{name: "flow_memory_bytes", help: "Memory that flows take.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.FlowMemory })},
}

// agentStage is of the stage that judges agents over all their flows.
var agentStage = []row{
	{name: "agents_live", help: "Agents that have reported within a week and have not taken their leave: their silence is judged.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.Agents.Live })},
	{name: "agents_stuck", help: "Agents that were found stuck within a week and have not been heard of since; not those that were archived for it.", kind: gauge, labels: []string{"reason", "certainty"}, read: readStuck},
	{name: "recoveries_total", help: "What was done about stuck agents: orders to resume, to review and to archive them, and people told.", kind: counter, labels: []string{"step"}, read: readRecoveries},
	{name: "activity_records_total", help: "Records of what concerns agents that were read, by what became of them.", kind: counter, labels: []string{"outcome"},
		read: each([]string{"folded", "repeated"}, func(r *Reading) []int64 { return r.Activity[:] })},
	{name: "agent_memory_bytes", help: "Memory that agents take.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.AgentMemory })},
	{name: "agents_told_age_seconds", help: "How long ago the time is up to which everything is known of agents; their silence after it is not judged. It is a minute or two when all is well.", kind: gauge,
		read: func(r *Reading, to *series) {
			// A member that folds no partition of agents receives no activity, and must not look as
			// if it were behind.
			if r.HasAgents {
				to.is(r.AgentsBehind.Seconds())
			}
		}},
}

// accounts are of the budgets over flows, in the unit of each: US dollars, tokens, calls or seconds.
var accounts = []row{
	{name: "budget_spent", help: "What an account of a budget has spent in its window; of more than 200 accounts of a process the fullest are shown.", kind: gauge, labels: []string{"budget", "value", "unit"},
		read: ofAccounts(func(v *budgets.View) (float64, bool) { return v.Spent, true })},
	{name: "budget_reserved", help: "What is set aside for calls under way.", kind: gauge, labels: []string{"budget", "value", "unit"},
		read: ofAccounts(func(v *budgets.View) (float64, bool) { return v.Reserved, true })},
	{name: "budget_limit", help: "What the account may spend in its window, with what was granted.", kind: gauge, labels: []string{"budget", "value", "unit"},
		read: ofAccounts(func(v *budgets.View) (float64, bool) {
			if v.Limit == nil {
				return 0, false
			}
			return *v.Limit, true
		})},
	{name: "budget_last_window_spent", help: "What the account had spent when its last window ended.", kind: gauge, labels: []string{"budget", "value", "unit"},
		read: ofAccounts(func(v *budgets.View) (float64, bool) {
			if v.Before == nil {
				return 0, false
			}
			return v.Before.Spent, true
		})},
	{name: "budget_refused_checks", help: "Checks that the account has refused in its window.", kind: gauge, labels: []string{"budget", "value", "unit"},
		read: ofAccounts(func(v *budgets.View) (float64, bool) { return float64(v.Refused), true })},
}

// ofAccounts reads a figure of each account that has it.
func ofAccounts(figure func(v *budgets.View) (float64, bool)) func(r *Reading, to *series) {
	return func(r *Reading, to *series) {
		for i := range r.Budgets {
			v := &r.Budgets[i]
			if n, ok := figure(v); ok {
				to.is(n, v.Budget, v.Value, string(v.Unit))
			}
		}
	}
}

// spent lists the metrics of what flows spent. Series of names come with the spending under them, and
// their number is bounded: see MostSpenders.
func spent() []row {
	out := []row{
		{name: "spent_calls_total", help: "Calls of agents and tools, by how their flow had been judged before: after nothing, a warning, or a stop.", kind: counter, labels: []string{"after"},
			read: func(r *Reading, to *series) {
				for when, after := range spentAfter {
					to.count(r.Spent[when].Calls, after)
				}
			}},
		{name: "spent_tokens_total", help: "Tokens, by how their flow had been judged before and where their price is from: the log, a price file, or unknown.", kind: counter, labels: []string{"after", "price"},
			read: func(r *Reading, to *series) {
				for when, after := range spentAfter {
					for price, n := range r.Spent[when].Tokens {
						to.count(n, after, prices[price])
					}
				}
			}},
		{name: "spent_usd_total", help: "US dollars, by how their flow had been judged before and where the price is from; tokens of unknown price are not in it.", kind: counter, labels: []string{"after", "price"},
			read: func(r *Reading, to *series) {
				for when, after := range spentAfter {
					for price, n := range r.Spent[when].MicroUSD {
						to.is(float64(n)/1e6, after, prices[price])
					}
				}
			}},
	}
	out = append(out,
		row{name: "rewritten_tokens_total", help: "Tokens that model calls wrote to a prompt cache again because their flow was held for longer than it keeps them.", kind: counter,
			read: func(r *Reading, to *series) { to.count(r.Fold.Rewritten[0]) }},
		row{name: "rewritten_usd_total", help: "US dollars that these tokens cost more than from the cache; those of models without a price are not in it.", kind: counter,
			read: func(r *Reading, to *series) { to.is(float64(r.Fold.Rewritten[1]) / 1e6) }})
	for by, name := range spenders {
		// wasted gives read what each name of this kind has wasted. Names come and go, so what
		// is 0 is left out.
		by := Spender(by)
		wasted := func(read func(s *Spent, to *series, labels ...string)) func(*Reading, *series) {
			return func(r *Reading, to *series) {
				for w := range r.wasted(by) {
					read(&w.AfterWarning, to, w.Name, spentAfter[1])
					read(&w.AfterStop, to, w.Name, spentAfter[2])
				}
			}
		}
		out = append(out,
			row{name: "waste_by_" + name + "_calls_total", help: "Calls in flows that had been warned or stopped, by " + name + ".", kind: counter, labels: []string{name, "after"},
				read: wasted(func(s *Spent, to *series, labels ...string) { to.count(s.Calls, labels...) })},
			row{name: "waste_by_" + name + "_tokens_total", help: "Tokens in flows that had been warned or stopped, by " + name + " and where their price is from.", kind: counter, labels: []string{name, "after", "price"},
				read: wasted(func(s *Spent, to *series, labels ...string) {
					for price, n := range s.Tokens {
						to.count(n, append(labels, prices[price])...)
					}
				})},
			row{name: "waste_by_" + name + "_usd_total", help: "US dollars in flows that had been warned or stopped, by " + name + " and where the price is from.", kind: counter, labels: []string{name, "after", "price"},
				read: wasted(func(s *Spent, to *series, labels ...string) {
					for price, n := range s.MicroUSD {
						to.is(float64(n)/1e6, append(labels, prices[price])...)
					}
				})})
	}
	return out
}

// partitions is of those that this process folds.
var partitions = []row{
	{name: "consumer_lag_records", help: "Records in the log that are not folded.", kind: gauge, labels: []string{"topic", "stage", "partition"},
		read: func(r *Reading, to *series) {
			for i := range r.Sources {
				s := &r.Sources[i]
				to.count(s.LagRecords, s.Topic, s.stage(), strconv.Itoa(s.Partition))
			}
		}},
	{name: "consumer_lag_seconds", help: "Time since the oldest record was appended that is not folded; 0 when there is none.", kind: gauge, labels: []string{"topic", "stage", "partition"},
		read: func(r *Reading, to *series) {
			for i := range r.Sources {
				s := &r.Sources[i]
				to.is(s.Lag.Seconds(), s.Topic, s.stage(), strconv.Itoa(s.Partition))
			}
		}},
	{name: "partitions_assigned", help: "Partitions that this process folds.", kind: gauge, labels: []string{"topic", "stage"},
		read: func(r *Reading, to *series) {
			// A topic has one series, whatever number of its partitions is folded here.
			assigned := make(map[[2]string]int64)
			for i := range r.Sources {
				assigned[[2]string{r.Sources[i].Topic, r.Sources[i].stage()}]++
			}
			for of, n := range assigned {
				to.count(n, of[0], of[1])
			}
		}},
	{name: "rebalances_total", help: "Times that the group shared out its partitions anew.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Rebalances })},
	{name: "fetch_errors_total", help: "Tries to read from the log that failed; they are repeated.", kind: counter, labels: []string{"class"},
		read: each(troubles[:], func(r *Reading) []int64 { return r.FetchTrouble[:] })},
	{name: "offset_commits_total", help: "Offsets that were committed to the broker.", kind: counter, labels: []string{"outcome"},
		read: each([]string{"ok", "error"}, func(r *Reading) []int64 { return r.Commits[:] })},
}

// store is the state on disk. The floor is there beside what is free, so that an alert can
// compare them.
var store = []row{
	{name: "store_size_bytes", help: "Size of the state on disk.", kind: gauge, labels: []string{"part"},
		read: each([]string{"lsm", "vlog"}, func(r *Reading) []int64 { return r.StoreBytes[:] })},
	{name: "store_disk_free_bytes", help: "Free space of the disk that holds the state.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.DiskFree })},
	{name: "store_disk_floor_bytes", help: "Free space below which nothing is written.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.DiskFloor })},
	{name: "store_checkpoint_waits_total", help: "Times that folding waited for a checkpoint.", kind: counter,
		read: one(func(r *Reading) int64 { return r.CheckpointWaits })},
	{name: "store_restore_duration_seconds", help: "Time from the last start until the log was caught up with; 0 before that.", kind: gauge,
		read: float(func(r *Reading) float64 { return r.Restored.Seconds() })},
}

// limits is what weir judges by.
var limits = []row{
	{name: "limit", help: "Value from which a rule stops, in its unit; rules that are off are not there.", kind: gauge, labels: []string{"rule", "row"},
		read: func(r *Reading, to *series) {
			if r.Limits == nil {
				return
			}
			for i := range r.Limits.Rules {
				set := &r.Limits.Rules[i]
				if set.Mode == rules.ModeOff || set.Stop == rules.Off {
					continue
				}
				// As the limits file has it, see rules.Setting.Limit; money is kept in
				// millionths.
				v := float64(set.Limit())
				if analyzer.Rules[i].Unit == events.UnitUSD {
					v /= 1e6
				}
				to.is(v, string(analyzer.Rules[i].Reason), analyzer.Rules[i].Name)
			}
		}},
	{name: "limits_info", help: "The limits in force, by the hash that stands in verdicts; always 1.", kind: gauge, labels: []string{"hash"},
		read: func(r *Reading, to *series) {
			if r.Limits != nil {
				to.is(1, r.Limits.Version)
			}
		}},
	{name: "limits_last_reload_successful", help: "Whether the last reading of the limits went well.", kind: gauge,
		read: float(func(r *Reading) float64 { return truth(r.Reloaded) })},
	{name: "limits_last_reload_success_timestamp_seconds", help: "When the limits were last read without a fault.", kind: gauge,
		read: float(func(r *Reading) float64 { return unix(r.ReloadedAt) })},
}

// itself is how weir is.
var itself = []row{
	{name: "ready", help: "Whether verdicts are up to date, as /readyz says.", kind: gauge,
		read: float(func(r *Reading) float64 { return truth(r.Ready) })},
	{name: "degraded", help: "Partitions of events whose calls are judged in degraded mode: because limits shrink under load, or because the fold is behind.", kind: gauge, labels: []string{"reason"},
		read: func(r *Reading, to *series) {
			to.count(r.Degraded.Busy, "load")
			to.count(r.Degraded.Behind, "behind")
		}},
	{name: "degraded_begun_total", help: "Times that the fold of a partition was so far behind that asks no longer waited for it.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Degraded.Begun })},
	{name: "degraded_answers_total", help: "Asks that were answered by what had been folded before, because the fold was behind.", kind: counter, labels: []string{"answer"},
		read: each([]string{"allowed", "refused"}, func(r *Reading) []int64 { return r.Degraded.Answers[:] })},
	{name: "degraded_unlogged_total", help: "Calls answered in degraded mode that the log could not be told of: nothing counts them later.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Degraded.Unlogged })},
	{name: "orders_by_hand", help: "Orders by hand about scopes (weir stop) that are in force.", kind: gauge,
		read: one(func(r *Reading) int64 { return r.OrdersByHand })},
	{name: "order_confirmed_ratio", help: "Least share of the guards of this process that have confirmed an order by hand in force; 1 without orders.", kind: gauge,
		read: float(func(r *Reading) float64 { return r.OrdersConfirmed })},
	{name: "request_panics_total", help: "Faults in weir while it answered a request or one check of several; each cost that answer.", kind: counter,
		read: one(func(r *Reading) int64 { return r.Panics })},
	{name: "selftest_last_success_timestamp_seconds", help: "When a loop of weir's own was last stopped as expected.", kind: gauge,
		read: tested(float(func(r *Reading) float64 { return unix(r.SelfTest.Passed) }))},
	{name: "selftest_duration_seconds", help: "Time from the append of the last loop of weir's own until its verdict was read back.", kind: gauge,
		read: tested(float(func(r *Reading) float64 { return r.SelfTest.Took.Seconds() }))},
	{name: "posted_verdicts_total", help: "Verdicts for the endpoints of --webhook and --otlp-logs, and messages of approvals, by whether they were taken or given up.", kind: counter, labels: []string{"to", "outcome"},
		read: func(r *Reading, to *series) {
			for _, p := range r.Posted {
				to.count(p.Delivered, p.To, "delivered")
				to.count(p.Dropped, p.To, "dropped")
			}
		}},
	{name: "post_failures_total", help: "Requests to the endpoints of --webhook and --otlp-logs that failed; their verdicts are sent again, or given up.", kind: counter, labels: []string{"to"},
		read: func(r *Reading, to *series) {
			for _, p := range r.Posted {
				to.count(p.Failures, p.To)
			}
		}},
	{name: "selftest_runs_total", help: "Loops of weir's own.", kind: counter, labels: []string{"outcome"},
		read: tested(each([]string{"stopped", "missed"}, func(r *Reading) []int64 { return r.SelfTest.Runs[:] }))},
}

// tested leaves a row out while weir does not test itself: a time of zero would look like a
// loop that was never stopped.
func tested(read func(*Reading, *series)) func(*Reading, *series) {
	return func(r *Reading, to *series) {
		if r.SelfTest.On {
			read(r, to)
		}
	}
}

// truth is 1 for true and 0 for false.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unix is a time in seconds since 1970; 0 for none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
