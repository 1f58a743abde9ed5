package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
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

// TestMemberUsedIDs uses an id for another call after its member was started again with its state, and after another
// member took its partitions over.
func TestMemberUsedIDs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 2)
	folder := t.TempDir()
	m := g.start(g.options(folder))
	one := func(to string) (status int) {
		line := fmt.Sprintf(`{"id":"one","source":"s","kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":%q}}`, to)
		g.until("the check has an answer", func() bool {
			res, err := http.Post("http://"+m.Addr()+"/v1/check", "application/json", strings.NewReader(line))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			status = res.StatusCode
			return status != http.StatusServiceUnavailable // until the partition is folded here
		})
		return status
	}
	if status := one("b"); status != http.StatusOK {
		t.Fatalf("the first call: %d", status)
	}
	g.folded(m)
	for i, dir := range []string{folder, t.TempDir(), folder} {
		m.stop()
		m = g.start(g.options(dir))
		if status := one("c"); status != http.StatusConflict {
			t.Errorf("%d: another call with the same id: %d, want 409", i, status)
		}
		if status := one("b"); status != http.StatusOK {
			t.Errorf("%d: the same call: %d", i, status)
		}
	}
}
