package operate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/pump"
)

// What things cost, as it was measured: cmd/weir/PERFORMANCE.md says how, and TestSizeOfWhatGrew holds
// memory, disk and processor time against the rows that are measured there. A figure is the least
// favourable of its rows, rounded up.
const (
	foldMicros      = 20.0 // of processor time for an event, also of flows that are read from disk
	liveMicros      = 60.0 // more for each of the first liveEvents a second of a process, which come by few at a time
	liveEvents      = 1200.0
	planned         = 0.5    // of a core: who was away then catches up at the pace at which events come
	memberCores     = 0.02   // that one member takes when nothing happens
	partitionCores  = 0.0003 // that one partition takes when nothing happens
	copyMicros      = 19.0   // for a verdict that is copied from another member
	perProcess      = 64     // partitions of one member; with 256 an event costs twice as much
	partitionEvents = 25_000 // a second in one partition: one goroutine folds it

	baseMiB      = 120.0 // of memory of a process
	recordMiB    = 1.1   // of memory for each that the flows' records take, up to --memory
	flowBytes    = 1024  // of the record of one flow
	knownBytes   = 140   // of memory for a live flow, of which the record may be on disk alone
	storeFactor  = 1.5   // of memory of the store, for each byte of live flows
	storeMiB     = 640.0 // of memory of the store at most
	partitionMiB = 15.0  // of memory of a partition that catches up
	sharing      = 80.0  // partitions; more share what these take

	mergeFactor  = 1.5    // of disk, while tables are merged
	floorMiB     = 2048.0 // of disk, below which nothing is written, and what is held for merges
	copiedBytes  = 2159   // of disk for a verdict that is copied
	verdictBytes = 1114   // in the topic
	activePart   = 15     // bytes of activity for an event

	agentMinutes = 10   // in which a busy agent gets one verdict of the agent stage at most
	replicas     = 3    // of each partition
	polls        = 4    // a second that each reader of a partition asks a broker when nothing comes; those that fold are asked for together
	joinSeconds  = 0.25 // until members hear that one has left or joined, at most
	takeSeconds  = 0.025
	awaySeconds  = 10 // until the group gives up a member that says nothing, see group.Options
)

// load is what weir is to carry.
type load struct {
	eventsADay, peak            float64
	flows, perFlow, agents      float64
	eventBytes, verdicts        float64 // bytes of an event; verdicts of a thousand events
	partitions, members, coresA int
	followed                    int
	memoryMiB                   int64
	retention                   time.Duration
}

// sizing is one figure, with how it was computed.
type sizing struct {
	What   string  `json:"what"`
	Amount float64 `json:"amount"`
	Unit   string  `json:"unit"`
	How    string  `json:"how"`
}

// SizeCommand is weir size: how many machines a load needs, and how large.
func SizeCommand() cli.Command {
	return cli.Command{
		Name: "size", Short: "estimate how many machines a load needs, and how large",
		Long: `Computes from measured figures (cmd/weir/PERFORMANCE.md), each from its least favourable
row, and prints how. It measures nothing itself. process_cpu_seconds_total at /metrics
shows the cost of your own events under load. Live flows had an event within flow.idle
(10m). --partitions 0 computes one weir with a journal of its own.`,
		Examples: []string{"weir size --events-a-day 20000000 --flows 20000", "weir size --events-a-day 86400000000 --peak 1 --flows 30000000 --partitions 1000 --members 100 --retention 24h"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			var l load
			fs.Float64Var(&l.eventsADay, "events-a-day", 0, "events per day (`MANY`)")
			fs.Float64Var(&l.flows, "flows", 0, "flows live at the same time (`MANY`)")
			fs.Float64Var(&l.peak, "peak", 3, "peak rate as a multiple of the mean (`MANY`)")
			fs.Float64Var(&l.perFlow, "events-per-flow", 20, "events per flow (`MANY`)")
			fs.Float64Var(&l.agents, "agents", 1000, "number of active agents (`MANY`)")
			fs.Float64Var(&l.eventBytes, "event-bytes", 350, "bytes per event (`MANY`)")
			fs.Float64Var(&l.verdicts, "verdicts", 20, "verdicts per thousand events (`MANY`); 20 if a fiftieth of the flows runs away")
			fs.IntVar(&l.partitions, "partitions", defaultPartitions, "partitions of events (`MANY`)")
			fs.IntVar(&l.members, "members", 0, "number of members (`MANY`); default: as few as possible")
			fs.IntVar(&l.followed, "followed", 1, "members whose verdicts are all followed (`MANY`): by a file, a webhook, a guard that only follows")
			fs.IntVar(&l.coresA, "cores", 4, "cores of one machine (`MANY`)")
			fs.Int64Var(&l.memoryMiB, "memory", pump.DefaultMemory>>20, "what weir run is given as --memory, in `MIB`")
			fs.DurationVar(&l.retention, "retention", 7*24*time.Hour, "keep flows and topic records for `DURATION`")
			return func(_ context.Context, env *cli.Env, _ []string) error {
				if err := l.check(); err != nil {
					return err
				}
				lines := cli.NewLines(env, func(s *sizing) []cli.Cell {
					return []cli.Cell{{Text: s.What}, {Text: figure(s.Amount), Right: true}, {Text: s.Unit}, {Text: s.How, Paint: cli.Faint}}
				}, "WHAT", "HOW MUCH", "", "BY")
				for _, s := range l.sizes() {
					if err := lines.Print(&s); err != nil {
						return err
					}
				}
				return lines.Flush()
			}
		},
	}
}

// check refuses what makes no sense.
func (l *load) check() error {
	for _, n := range []struct {
		flag string
		is   float64
	}{{"events-a-day", l.eventsADay}, {"flows", l.flows}, {"peak", l.peak}, {"events-per-flow", l.perFlow}, {"event-bytes", l.eventBytes},
		{"cores", float64(l.coresA)}, {"memory", float64(l.memoryMiB)}, {"retention", float64(l.retention)}} {
		if !(n.is > 0) || math.IsInf(n.is, 0) {
			return cli.Usage("--%s is %v; say a number above 0", n.flag, n.is)
		}
	}
	for _, n := range []struct {
		flag string
		is   float64
	}{{"agents", l.agents}, {"verdicts", l.verdicts}, {"partitions", float64(l.partitions)}, {"members", float64(l.members)}, {"followed", float64(l.followed)}} {
		if !(n.is >= 0) || math.IsInf(n.is, 0) {
			return cli.Usage("--%s is %v; say a number, 0 or more", n.flag, n.is)
		}
	}
	if l.partitions > 0 && l.members > l.partitions {
		return cli.Usage("--members is %d, and %d partitions give work to no more than %d", l.members, l.partitions, l.partitions)
	}
	return nil
}

// sizer computes the figures of a load. What it takes per member is that of the members that have most.
type sizer struct {
	*load
	out        []sizing
	mean, rate float64 // events a second, in the mean and at the peak
	activity   int     // partitions of activity
	count      int     // members
	m          float64 // that as a factor
	owned      float64 // partitions of a member
	said       float64 // verdicts of flows a second, in the mean
	ofAgents   float64 // verdicts of agents a second
}

const gib = 1 << 30

// sizes computes the figures.
func (l *load) sizes() []sizing {
	z := &sizer{load: l, mean: l.eventsADay / 86_400, activity: min(l.partitions, mostActivity), count: 1}
	z.rate, z.said, z.ofAgents = z.mean*l.peak, z.mean*l.verdicts/1000, l.agents/(agentMinutes*60)
	z.add("events at the peak", z.rate, "a second", "events a day / 86,400 x %s", figure(l.peak))
	z.cores()
	z.memory()
	disk, how := z.flowsOnDisk()
	if l.partitions == 0 {
		z.journal(disk, how)
		return z.out
	}
	z.copies(disk, how)
	z.topics()
	z.traffic()
	z.handOver()
	return z.out
}

func (z *sizer) add(what string, amount float64, unit, how string, args ...any) {
	z.out = append(z.out, sizing{what, amount, unit, fmt.Sprintf(how, args...)})
}

// cores computes the members and what they compute.
func (z *sizer) cores() {
	work := z.rate * foldMicros / 1e6 / planned
	if z.partitions > 0 {
		z.count = z.members
		if z.count == 0 {
			z.count = min(z.partitions, 1+max(ceil(work/float64(z.coresA)), ceil(float64(z.partitions)/perProcess)))
		}
	}
	z.m = float64(z.count)
	work += float64(z.partitions)*partitionCores + z.m*(memberCores+min(z.rate/z.m, liveEvents)*liveMicros/1e6)
	z.owned = math.Ceil(float64(z.partitions) / z.m)
	if z.partitions > 0 {
		if z.members > 0 {
			z.add("members", z.m, "", "--members")
		} else {
			z.add("members", z.m, "", "cores / %d, and %d partitions each at most; one more for when one fails", z.coresA, perProcess)
		}
		if least := ceil(z.rate / partitionEvents); least > z.partitions {
			z.add("partitions at least", float64(least), "", "%s events a second in each at most", figure(partitionEvents))
		}
	}
	z.add("cores of all", work, "", "%g µs an event in %g of a core; %g µs more for %g a second of each member; %g a partition, %g a member", foldMicros, planned, liveMicros, liveEvents, partitionCores, memberCores)
	z.add("cores of a member", work/z.m, "", "that of all / members")
}

func (z *sizer) memory() {
	records := z.flows / z.m * flowBytes / (1 << 20)
	memory := baseMiB + recordMiB*min(records, float64(z.memoryMiB)) + z.flows/z.m*knownBytes/(1<<20) + min(storeFactor*records, storeMiB) + partitionMiB*min(max(z.owned, 1), sharing)
	z.add("memory of a member", memory, "MiB", "%g; %g x the records of live flows or --memory; %d bytes a live flow; up to %g for the store; %g a partition up to %g", baseMiB, recordMiB, knownBytes, storeMiB, partitionMiB, sharing)
}

func (z *sizer) days() float64 { return z.retention.Hours() / 24 }

// flowsOnDisk is what the flows of a member take, in GiB.
func (z *sizer) flowsOnDisk() (disk float64, how string) {
	flows := z.eventsADay / z.perFlow * z.days()
	return flows/z.m*flowBytes*mergeFactor/gib + floorMiB/1024, fmt.Sprintf("%s of flows of %d bytes x %g, and %g GiB that stay free", "--retention", flowBytes, mergeFactor, floorMiB/1024)
}

// journal computes the disk of one weir, which keeps the log as well.
func (z *sizer) journal(disk float64, how string) {
	disk += (z.eventsADay*(z.eventBytes+activePart) + z.said*86_400*verdictBytes) * z.days() * mergeFactor / gib
	z.add("disk", disk, "GiB", "%s", how+"; the journal and the verdicts, too")
}

// copies computes the disk of a member of a group, with the verdicts that it copies.
func (z *sizer) copies(disk float64, how string) {
	z.add("disk of a member", disk+z.ofAgents*86_400*z.days()*copiedBytes/gib, "GiB", "%s; verdicts about agents", how)
	if z.followed > 0 {
		z.add("disk of one that is followed", disk+(z.ofAgents+z.said)*86_400*z.days()*copiedBytes/gib, "GiB", "that, and %d bytes a verdict", copiedBytes)
	}
}

func (z *sizer) topics() {
	second := z.retention.Seconds() * replicas / gib
	z.add("topic of events", z.mean*z.eventBytes*second, "GiB", "%s bytes an event, %d replicas", figure(z.eventBytes), replicas)
	z.add("topic of verdicts", (z.said+z.ofAgents)*verdictBytes*second, "GiB", "%g verdicts of 1,000 events, %d bytes each", z.verdicts, verdictBytes)
	z.add("topic of activity", z.mean*activePart*second, "GiB", "%d bytes an event", activePart)
}

// traffic computes what the brokers write and send, and what copying takes.
func (z *sizer) traffic() {
	const mb = 1e6
	peakSaid, followed := z.said*z.peak, min(float64(z.followed), z.m)
	in := z.rate*(z.eventBytes+activePart) + (peakSaid+z.ofAgents)*verdictBytes
	z.add("written by brokers", in*replicas/mb, "MB/s", "events, activity and verdicts, %d times", replicas)
	others := (z.ofAgents*z.m + peakSaid*followed) * verdictBytes
	z.add("read from brokers", (z.rate*(z.eventBytes+activePart)+others)/mb, "MB/s", "events and activity once, verdicts as below; replicas beside it")
	readers := float64(z.partitions+z.activity) + z.m*float64(z.activity) + followed*float64(z.partitions)
	z.add("connections of readers", readers, "", "one a partition, a member and partition of activity, and a partition that is followed; at rest one for up to 32 of the first, and %d requests a second of each of the others", polls)

	z.add("copying, of each member", z.ofAgents*copyMicros/1e6, "cores", "%s verdicts about agents a second, one an agent in %d min, %g µs each; %s MB/s", figure(z.ofAgents), agentMinutes, copyMicros, figure(z.ofAgents*verdictBytes/mb))
	if followed > 0 {
		z.add("copying, of one that is followed", (z.ofAgents+peakSaid)*copyMicros/1e6, "cores", "%s verdicts a second at the peak; %s MB/s", figure(z.ofAgents+peakSaid), figure((z.ofAgents+peakSaid)*verdictBytes/mb))
	}
}

// handOver computes how long partitions wait when a member goes.
func (z *sizer) handOver() {
	if z.count > 1 {
		each := math.Ceil((z.owned + math.Ceil(float64(z.activity)/z.m)) / (z.m - 1))
		z.add("hand-over, one leaves", joinSeconds+takeSeconds*each, "s", "%g to hear of it, %g for each of %s partitions that a member gets", joinSeconds, takeSeconds, figure(each))
		z.add("hand-over, one is gone", awaySeconds+joinSeconds+takeSeconds*each+1, "s", "that, %d until it counts as gone, and 1 to fold again; less when it comes back", awaySeconds)
	}
}

func ceil(x float64) int { return int(math.Ceil(x)) }

// figure writes a number with two or three digits that count.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		unit := math.Pow(10, math.Floor(math.Log10(a))-2)
		return cli.Grouped(int64(math.Round(x/unit) * unit))
	case a >= 10 || a == math.Trunc(a):
		return fmt.Sprintf("%.0f", x)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2g", x), "0"), ".")
}
