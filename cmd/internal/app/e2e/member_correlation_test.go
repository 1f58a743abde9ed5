package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"weir/cmd/internal/app/checktest"
	"weir/sink/check"
)

// TestMemberCorrelation sends streams, batches and requests to both members of a group, which
// forward about half of the checks to each other, and holds that each has one answer, which is its
// own.
func TestMemberCorrelation(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	members := g.two()
	var all sync.WaitGroup
	for i, m := range members {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		name, kinds := fmt.Sprintf("m%d", i), []string{checktest.Allowed, checktest.Refused, checktest.Wrong}
		stream := checktest.New(random, name+"-stream", 400, kinds...)
		batch := checktest.New(random, name+"-batch", check.MostAsks, kinds...)
		single := checktest.New(random, name+"-single", 20, kinds...)
		all.Go(func() { stream.Stream(t, m.Addr(), random, nil) })
		all.Go(func() { batch.Batch(t, m.Addr()) })
		all.Go(func() { single.Requests(t, m.Addr()) })
	}
	all.Wait()
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
