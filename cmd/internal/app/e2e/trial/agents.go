package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
)

// foldActivity folds the topic of activity from its beginning as it is, each partition
// by itself and without repeats. The agent stage does the same beside this number of partitions
// of events.
// The topic is taken for what was said. Whether it is the right activity is checked elsewhere:
// `weir replay`, which makes it anew from the events, has to give the same verdicts (see
// storm.judge). flows is the number of partitions of events. The output of the agent stage
// has the numbers behind those (see decision 43).
func foldActivity(ctx context.Context, s *server, topic string, flows int32) (*oracle, error) {
	o := &oracle{}
	pumps := map[int32]*pump.Pump{}
	seen := map[int32]map[int]pump.Position{}
	// An error cannot leave the callback; what comes after the first one is folded for
	// nothing.
	var failed, err error
	o.records, err = s.readAll(ctx, topic, func(r *kgo.Record) {
		// It is the number that members give the partition, see published.stages.
		output := flows + r.Partition
		p := pumps[r.Partition]
		if p == nil {
			p, failed = pump.New(ctx, pump.Options{Partition: uint16(output), Stage: pump.AgentStage, Sources: int(flows), AgentPartitions: int(flows), Limits: limitfile.Default(),
				Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
			if failed != nil {
				return
			}
			pumps[r.Partition], seen[r.Partition] = p, map[int]pump.Position{}
		}
		var ev events.Event
		// What flows reported about their parties is one binary record and no event (see decision
		// 75).
		reports := pump.IsReports(r.Value)
		if !reports {
			if failed = events.Decode(r.Value, &ev); failed != nil {
				return
			}
		}
		one := pump.Record{Offset: r.Offset, Appended: events.StampOf(r.Timestamp), Key: string(r.Key), From: pump.Position{Source: -1}}
		ev.Appended, one.Value = one.Appended, r.Value
		// Former and later owners may send the same activity. As in the agent stage, the highest
		// position seen of each source shows a repeat. The pump
		// drops it by itself below; here it is counted.
		if at, err := positionOf(r); err == nil {
			one.From = at
			last, known := seen[r.Partition][at.Source]
			switch {
			case known && (at.Offset < last.Offset || at.Offset == last.Offset && at.Part <= last.Part):
				o.repeats++
			// Records of time go to every partition and belong to no agent.
			case one.Key == "":
				o.ticks++
				fallthrough
			default:
				seen[r.Partition][at.Source] = at
			}
		}
		// FoldReports and FoldRecord both drop by its position what came before.
		var given []events.Verdict
		if reports {
			if given, failed = p.FoldReports(&one); failed != nil {
				return
			}
		} else {
			given = p.FoldRecord(&ev, &one)
		}
		for _, v := range given {
			// The key of a verdict in its topic is what it is about.
			o.verdicts = append(o.verdicts, said{output, r.Offset, v.ID, v.Scope.String(), string(v.AppendJSON(nil))})
		}
	})
	if failed != nil {
		return nil, fmt.Errorf("fold topic %s: %w", topic, failed)
	}
	o.records = outputsOf(o.records, flows)
	return o, err
}

// outputsOf gives the partitions of the activity the numbers of their output.
func outputsOf(partitions map[int32]int64, flows int32) map[int32]int64 {
	out := map[int32]int64{}
	for p, n := range partitions {
		out[flows+p] = n
	}
	return out
}

// positionOf reads where a record of activity comes from.
// The error says that it has none, as a record that was written by hand.
func positionOf(r *kgo.Record) (at pump.Position, err error) {
	partition, err := strconv.Atoi(header(r, "weir-partition"))
	if err != nil {
		return at, err
	}
	offset, err := strconv.ParseInt(header(r, "weir-offset"), 10, 64)
	if err != nil {
		return at, err
	}
	part, err := strconv.Atoi(header(r, "weir-part"))
	return pump.Position{Source: partition, Offset: offset, Part: part}, err
}
