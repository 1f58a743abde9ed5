package kafka

import (
	"cmp"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// balancer assigns the partitions of one topic. Shares differ by at most one. As far as
// the shares allow, a partition goes to the member with the furthest state of it. The
// result depends only on what the members report.
//
// The library's balancers know nothing of states. Each change of the group would move
// partitions to members that must fold hours of log to know as much as the previous
// owner.
type balancer struct {
	topic string
	// mine is asked at each joining, so it says what is held then and not at the start.
	mine func() profile
}

// ProtocolName is what all members of a group must agree on.
//
// A member that speaks another protocol is refused by the coordinator
// (InconsistentGroupProtocol), which is how a program of another kind in the group is noticed.
func (b *balancer) ProtocolName() string { return "weir-holds" }

// UserData is what this member reports about itself.
//
// The coordinator stores it unchanged and returns it to the leader, and to callers that
// describe the group (Members).
func (b *balancer) UserData() ([]byte, error) { return b.mine().append() }

// AssignGroups shares the partitions out. Only the leader of the group is asked.
//
// The library calls it on the leader between the joining of all members and their first
// generation, so it does no I/O.
func (b *balancer) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	var who []member
	for _, m := range members {
		// A member may be in the group for another topic.
		if !slices.Contains(m.Topics, b.topic) {
			continue
		}
		// A member whose profile cannot be read has no state that counts.
		p, _ := parseProfile(m.UserData)
		who = append(who, member{m.ID, p.holds})
	}
	var ids []int
	for _, p := range partitions {
		if p.Topic == b.topic {
			ids = append(ids, p.ID)
		}
	}
	out := kafkago.GroupMemberAssignments{}
	// Every member of the topic has an entry, if only an empty one.
	for id, share := range shareOut(who, ids) {
		out[id] = map[string][]int{b.topic: share}
	}
	return out
}

// member is what the balancer knows of one.
//
// Its id is given by the coordinator and changes with each joining under a new name, so it
// only breaks ties.
type member struct {
	id    string
	holds []Hold
}

// shareOut returns the partitions of each member, in order. Every member has a share,
// though it may be empty.
func shareOut(members []member, partitions []int) map[string][]int {
	shares := make(map[string][]int, len(members))
	if len(members) == 0 {
		return shares
	}
	// Both are sorted, since neither the coordinator nor the map of topics promises an order,
	// and equal input is to give equal shares.
	members = slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.id, b.id) })
	partitions = slices.Compact(slices.Sorted(slices.Values(partitions)))
	load := make([]int, len(members))
	// Some members have one partition more than the others when it does not come out even.
	least, more := len(partitions)/len(members), len(partitions)%len(members)
	// room asks for the share of a member; give takes one of the larger shares when it needs
	// it.
	room := func(m int) bool { return load[m] < least || load[m] == least && more > 0 }
	owner := make(map[int]int, len(partitions))
	give := func(partition, m int) {
		if load[m] == least {
			more--
		}
		load[m]++
		owner[partition] = m
	}

	claims, deepest := claimsOf(members)
	// First choices come first, so that no second choice takes the room of another
	// member's first.
	// rank 0 is the member with the furthest state of a partition, rank 1 the next.
	for rank := range deepest {
		for _, p := range partitions {
			// A partition whose best member is full goes to its second best in the next round,
			// and so on.
			if _, taken := owner[p]; taken || rank >= len(claims[p]) {
				continue
			}
			if m := claims[p][rank].member; room(m) {
				give(p, m)
			}
		}
	}
	// A partition without a member that has room and state goes to the member with the fewest.
	// While a partition is left, some member is below its share, and so is the one with the
	// fewest.
	for _, p := range partitions {
		if _, taken := owner[p]; taken {
			continue
		}
		idle := 0
		for m := range members {
			if load[m] < load[idle] {
				idle = m
			}
		}
		give(p, idle)
	}

	// A member without partitions has an empty list, not nil.
	for m := range members {
		shares[members[m].id] = []int{}
	}
	for _, p := range partitions {
		id := members[owner[p]].id
		shares[id] = append(shares[id], p)
	}
	return shares
}

// claim says that a member has state of a partition, up to before an offset.
//
// Offsets of different partitions are never compared.
type claim struct {
	member int
	next   int64
}

// claimsOf returns the members with state of each partition, the furthest first, and the largest number of them.
//
// Among equals the first by id comes first, so the order depends on nothing else.
func claimsOf(members []member) (claims map[int][]claim, most int) {
	claims = make(map[int][]claim)
	for m := range members {
		for _, h := range members[m].holds {
			claims[h.Partition] = append(claims[h.Partition], claim{m, h.Next})
		}
	}
	for _, c := range claims {
		slices.SortFunc(c, func(a, b claim) int { return cmp.Or(cmp.Compare(b.next, a.next), a.member-b.member) })
		most = max(most, len(c))
	}
	return claims, most
}
