package kafka

import (
	"cmp"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// balancer shares the partitions of one topic out so that the shares differ by at most
// one, and so that a partition goes to the member that has the furthest state of it as
// far as the shares allow. The result depends on nothing but what the members tell.
type balancer struct {
	topic string
	tell  func() profile
}

// ProtocolName is what all members of a group must agree on.
func (b *balancer) ProtocolName() string { return "weir-holds" }

// UserData is what this member tells of itself.
func (b *balancer) UserData() ([]byte, error) { return b.tell().append(nil) }

// AssignGroups shares the partitions out. Only the leader of the group is asked.
func (b *balancer) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	var who []member
	for _, m := range members {
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
	for id, share := range shareOut(who, ids) {
		out[id] = map[string][]int{b.topic: share}
	}
	return out
}

// member is what the balancer knows of one.
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
	members = slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.id, b.id) })
	partitions = slices.Compact(slices.Sorted(slices.Values(partitions)))
	load := make([]int, len(members))
	// Some members have one partition more than the others when it does not come out even.
	least, more := len(partitions)/len(members), len(partitions)%len(members)
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
	// First everybody's first choice, so that nobody's second takes the room of another's
	// first.
	for rank := range deepest {
		for _, p := range partitions {
			if _, taken := owner[p]; taken || rank >= len(claims[p]) {
				continue
			}
			if m := claims[p][rank].member; room(m) {
				give(p, m)
			}
		}
	}
	// What nobody with room has state of goes to who has least to do.
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
type claim struct {
	member int
	next   int64
}

// claimsOf returns who has state of each partition, the furthest first, and how many have at most.
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
