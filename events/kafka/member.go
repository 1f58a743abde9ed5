package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Member is one process of a group.
//
// It is the coordinator's view, which may predate the last change.
type Member struct {
	ID         string
	Host       string // from where the coordinator sees it
	Address    string // its GroupOptions.Address; empty when it gave none
	Partitions []int  // that it owns, in order
}

// Members returns the members of the group in the order of their ids, and the coordinator's
// name for the group's state: Stable, Empty, Dead, or a rebalance, during which no member may
// own a partition. A group without any member ever is Dead, or Empty.
// Each call asks anew; no Run is needed.
func (g *Group) Members(ctx context.Context) (members []Member, state string, err error) {
	what := "members of group " + g.o.Group
	answer, err := g.o.Cluster.Client().DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{g.o.Group}})
	if err != nil {
		return nil, "", g.o.Cluster.because(ctx, what, err)
	}
	if len(answer.Groups) != 1 {
		return nil, "", fmt.Errorf("%s: the coordinator tells of %d groups", what, len(answer.Groups))
	}
	group := answer.Groups[0]
	// Newer brokers say that a group does not exist, older ones that it is Dead.
	if errors.Is(group.Error, kafkago.GroupIdNotFound) {
		return nil, "Dead", nil
	}
	if group.Error != nil {
		return nil, "", fmt.Errorf("%s: %w", what, group.Error)
	}
	for _, m := range group.Members {
		p, _ := parseProfile(m.MemberMetadata.UserData) // another program has no address for us
		one := Member{ID: m.MemberID, Host: m.ClientHost, Address: p.address}
		for _, t := range m.MemberAssignments.Topics {
			if t.Topic == g.o.Topic {
				one.Partitions = append(one.Partitions, t.Partitions...)
			}
		}
		slices.Sort(one.Partitions)
		members = append(members, one)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, group.GroupState, nil
}

// Owners returns the address of the owner of each partition that has one; "" of an owner that
// does not say where it can be reached.
//
// It is how one member finds the one that has the state of a flow.
func (g *Group) Owners(ctx context.Context) (map[int]string, error) {
	members, _, err := g.Members(ctx)
	if err != nil {
		return nil, err
	}
	// During a change no member owns anything, and the map is empty.
	owners := make(map[int]string)
	for _, m := range members {
		for _, p := range m.Partitions {
			owners[p] = m.Address
		}
	}
	return owners, nil
}

// Committed returns the committed offset of each partition that has one. A group without
// any member ever has none.
func (g *Group) Committed(ctx context.Context) (map[int]int64, error) {
	what := "committed offsets of group " + g.o.Group
	n, err := g.o.Cluster.Partitions(ctx, g.o.Topic)
	if err != nil {
		return nil, err
	}
	// The library's client wants them named; all at once is one request.
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	answer, err := g.o.Cluster.Client().OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: g.o.Group, Topics: map[string][]int{g.o.Topic: all}})
	if err == nil {
		err = answer.Error
	}
	offsets := make(map[int]int64)
	if errors.Is(err, kafkago.GroupIdNotFound) {
		return offsets, nil
	}
	if err != nil {
		return nil, g.o.Cluster.because(ctx, what, err)
	}
	for _, p := range answer.Topics[g.o.Topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("%s: partition %d: %w", what, p.Partition, p.Error)
		}
		// -1 is a partition of which nothing was committed.
		if p.CommittedOffset >= 0 {
			offsets[p.Partition] = p.CommittedOffset
		}
	}
	return offsets, nil
}

// retire takes a former member of this process out of the group, so that the group does
// not wait for it until it counts as dead. It tries on until the coordinator has
// answered; by then the member may be gone.
//
// It is called beside the work of Run and ends with ctx: that a former member stays is only
// slow, never wrong.
func (g *Group) retire(ctx context.Context, id string) {
	for {
		// The coordinator can only be slow or gone: the next attempt finds the new one.
		attempt, cancel := context.WithTimeout(ctx, coordinatorTimeout)
		answer, err := g.o.Cluster.Client().LeaveGroup(attempt, &kafkago.LeaveGroupRequest{
			GroupID: g.o.Group, Members: []kafkago.LeaveGroupRequestMember{{ID: id}},
		})
		cancel()
		if err == nil {
			err = answer.Error
		}
		if err == nil && len(answer.Members) == 1 {
			err = answer.Members[0].Error
		}
		if err == nil {
			g.o.Logger.Info("took a former member of this process out of the group", "member", id)
			return
		}
		// Another process was quicker, or the member has timed out, or the right is missing. In
		// the last case only waiting helps.
		if errors.Is(err, kafkago.UnknownMemberId) || errors.Is(err, kafkago.GroupIdNotFound) || Final(err) {
			return
		}
		if pause(ctx, min(g.o.JoinBackoff, time.Second)) != nil {
			return
		}
	}
}

// lastMember returns the id that keepMember kept, which is there only when the process
// did not leave the group in order.
//
// A file of another group is left alone: it belongs to a process that shares the directory by
// mistake, or to settings of before.
func (g *Group) lastMember() string {
	if g.o.MemberFile == "" {
		return ""
	}
	b, err := os.ReadFile(g.o.MemberFile)
	group, id, ok := strings.Cut(strings.TrimSuffix(string(b), "\n"), "\n")
	// An id that is longer is none; the file may hold anything.
	if err != nil || !ok || group != g.o.Group || len(id) > 512 {
		return ""
	}
	return id
}

// keepMember keeps the own id. That it cannot is no reason to stop: a crash then costs
// the session timeout.
//
// The file is replaced by a rename, so that a crash leaves the old id or the new one, never
// half of one.
func (g *Group) keepMember(id string) {
	if g.o.MemberFile == "" {
		return
	}
	part := g.o.MemberFile + ".part"
	err := os.MkdirAll(filepath.Dir(part), 0o700)
	if err == nil {
		// Only this user may read it: who knows an id may take that member out of the group.
		err = os.WriteFile(part, []byte(g.o.Group+"\n"+id+"\n"), 0o600)
	}
	if err == nil {
		err = os.Rename(part, g.o.MemberFile)
	}
	if err != nil {
		g.o.Logger.Warn("the member id cannot be kept: after a crash this process is let in again only after the session timeout", "err", err)
	}
}

// forgetMember is for a group that was left in order, which needs no retirement.
func (g *Group) forgetMember() {
	if g.o.MemberFile != "" {
		_ = os.Remove(g.o.MemberFile) // a remaining file is harmless: the id is no longer in use
	}
}
