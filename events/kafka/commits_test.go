package kafka

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestCommitsGoTogether holds that offsets which arrive during a request share the next one, each
// generation its own, and that each caller gets the answer for its partition.
func TestCommitsGoTogether(t *testing.T) {
	refused, lost := errors.New("refused"), errors.New("lost")
	held, release := make(chan struct{}), make(chan struct{})
	var sent [][]int // generation and partitions of each request
	var c commits
	c.send = func(_ context.Context, of Assignment, offsets []kafkago.OffsetCommit) (map[int]error, error) {
		request := []int{of.Generation}
		answered := map[int]error{}
		for _, o := range offsets {
			if o.Offset != int64(100+o.Partition) {
				t.Errorf("partition %d: offset %d", o.Partition, o.Offset)
			}
			request = append(request, o.Partition)
			if o.Partition == 3 {
				answered[3] = refused
			}
		}
		slices.Sort(request[1:])
		if sent = append(sent, request); len(sent) == 1 {
			close(held)
			<-release
		}
		if of.Generation == 2 {
			return nil, lost
		}
		return answered, nil
	}
	var told sync.WaitGroup
	tell := func(generation, partition int, want error) {
		told.Go(func() {
			if err := c.commit(Assignment{Generation: generation, Partition: partition}, int64(100+partition)); !errors.Is(err, want) {
				t.Errorf("generation %d, partition %d: %v, want %v", generation, partition, err, want)
			}
		})
	}
	gathers := func(generation, n int) {
		for {
			c.mu.Lock()
			there := c.gathering != nil && c.gathering.of.Generation == generation && len(c.gathering.offsets) == n
			c.mu.Unlock()
			if there {
				return
			}
			runtime.Gosched()
		}
	}
	tell(1, 0, nil)
	<-held
	for p := 1; p < 8; p++ {
		want := error(nil)
		if p == 3 {
			want = refused
		}
		tell(1, p, want)
	}
	gathers(1, 7)
	tell(2, 0, lost)
	gathers(2, 1)
	tell(2, 5, lost)
	gathers(2, 2)
	close(release)
	told.Wait()
	slices.SortFunc(sent, slices.Compare)
	if want := [][]int{{1, 0}, {1, 1, 2, 3, 4, 5, 6, 7}, {2, 0, 5}}; !slices.EqualFunc(sent, want, slices.Equal) {
		t.Errorf("sent %v, want %v", sent, want)
	}
	// Nothing is kept of earlier commits.
	tell(3, 3, refused)
	told.Wait()
	if c.gathering != nil {
		t.Errorf("%+v still gathers", c.gathering)
	}
}
