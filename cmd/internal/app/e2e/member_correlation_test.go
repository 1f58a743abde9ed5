package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/app"
	"weir/cmd/internal/app/checktest"
	"weir/sink/check"
)

// TestMemberCorrelation sends streams, batches and requests, and checks of guards, to both members of a group, which
// forward about half of the checks to each other, and holds that each has one answer, which is its
// own.
func TestMemberCorrelation(t *testing.T) {
	limits, err := limitfile.Parse("test", []byte(checktest.HeldLimits))
	if err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, startBroker(t), 4)
	members := g.two(func(o *app.Options) { o.Limits = limits })
	counts := []int{1, check.MostAsks - 1, check.MostAsks, check.MostAsks + 1, 1000, 5000}
	if testing.Short() {
		counts = []int{check.MostAsks, 400}
	}
	for round, count := range counts {
		var all sync.WaitGroup
		for i, m := range members {
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			name, kinds := fmt.Sprintf("r%d-m%d", round, i), []string{checktest.Allowed, checktest.Refused, checktest.Held, checktest.Wrong}
			stream := checktest.New(random, name+"-stream", count, kinds...)
			batch := checktest.New(random, name+"-batch", min(count, check.MostAsks), kinds...)
			single := checktest.New(random, name+"-single", 20, kinds...)
			guarded := checktest.New(random, name+"-guard", count, checktest.Allowed, checktest.Held)
			all.Go(func() { stream.Stream(t, m.Addr(), random, nil) })
			all.Go(func() { batch.Batch(t, m.Addr()) })
			all.Go(func() { single.Requests(t, m.Addr()) })
			all.Go(func() { guarded.Guard(t, m.Addr()) })
		}
		all.Wait()
	}
}

// TestMemberCorrelationWithoutAPeer ends a member while the other one forwards checks to it: each
// check still has one answer, which is its own or says that the owner does not answer.
func TestMemberCorrelationWithoutAPeer(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	members := g.two()
	random := rand.New(rand.NewPCG(2, 2))
	c := checktest.New(random, "peer", 300, checktest.Allowed, checktest.Refused)
	c.Excused = []int{http.StatusServiceUnavailable}
	c.Stream(t, members[0].Addr(), random, func() { members[1].stop() })
}
