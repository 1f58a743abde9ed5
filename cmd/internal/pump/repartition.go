package pump

import (
	"fmt"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/reports"
	"weir/events"
)

// lowWatermarkEvery is how often the flow stage publishes up to when it has passed everything on, in
// milliseconds of its watermark. It is a constant because it decides when an agent is found to be
// silent.
const lowWatermarkEvery = 30_000

// repartitioning is what a flow stage has passed on to the agent stage. It depends on the log
// alone, so that what is sent again after a crash is numbered as before.
type repartitioning struct {
	step   int64 // of the watermark, at which the low watermark was published last
	offset int64 // of the record of which something was made last
	parts  int   // number of its records

	memory []byte // of the values that wait to be sent

	reports  reports.Waiting // of parties, which wait
	reported events.Stamp    // the time of the log when they were passed on last
	batches  []batch         // by partition of the activity; empty but while they are passed on
	key      []byte          // memory of the key of one
}

// repartition passes on what the last step gave for agents, except what went out before a
// crash: whatever came before a verdict that was published is safe.
func (p *Pump) repartition(offset int64) {
	if len(p.fx.Activity) == 0 && len(p.fx.Reports) == 0 {
		return
	}
	p.passToAgents(p.fx.Activity, p.fx.Reports, offset)
	p.fx.ResetActivity() // with the memory of what was passed on
}

// passToAgents passes on what the record at an offset has brought about for agents.
func (p *Pump) passToAgents(told []activity.Activity, reports []activity.Report, offset int64) {
	for i := range told {
		p.repartitionOne(told[i].Key, offset, &told[i].Event)
	}
	p.retain(reports, offset)
}

// repartitionOne passes one event on, or leaves it out if it is out already. It takes a number
// either way, so that parts are numbered as the first time.
func (p *Pump) repartitionOne(key string, offset int64, ev *events.Event) {
	t := &p.repartitioning
	part := t.part(offset)
	switch {
	case p.handOn != nil:
		p.handOn(key, Position{Offset: offset, Part: part}, ev)
	case p.o.Activity == nil || offset < p.dedup.upTo:
	default:
		from := len(t.memory)
		t.memory = ev.AppendJSON(t.memory)
		// The key is in the memory of the effects.
		p.repartitioned = append(p.repartitioned, Repartitioned{Key: strings.Clone(key), Offset: offset, Part: part, Value: t.memory[from:len(t.memory):len(t.memory)]})
	}
}

// part is the place of what comes next among what was made of the record at an offset.
func (t *repartitioning) part(offset int64) int {
	if offset != t.offset {
		t.offset, t.parts = offset, 0
	}
	t.parts++
	return t.parts - 1
}

// publishLowWatermark says up to when everything was passed on, when the watermark has got on and no
// deadline before it is left.
func (p *Pump) publishLowWatermark() {
	step := int64(p.stage.seen()) / lowWatermarkEvery
	// The deadlines of a sweep have fired when it hands on its effects.
	if step <= p.repartitioning.step || !p.sweeping && p.ripe() || p.o.Stage == AgentStage {
		return
	}
	p.repartitioning.step = step
	// Reports go first, because the tick says that everything up to its time was reported.
	p.publishReportsDue(p.at.next - 1)
	at := p.engine.LowWatermark(p.stage.seen())
	tick := events.Event{ID: fmt.Sprintf("told:%d", at), Time: at, Kind: events.Tick}
	if s, ok := p.stage.(*flowStage); ok && s.partition.Reporting {
		tick.Tags = []string{reporting}
	}
	p.repartitionOne("", p.at.next-1, &tick)
}
