package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Hold says that a member has the state of a partition up to before offset Next.
//
// Next is an offset of the log of events, the one that the store would read on from.
type Hold struct {
	Partition int
	Next      int64
}

// profile is what a member reports to the others when it joins.
//
// The coordinator stores it, so it is small: a few bytes per partition.
type profile struct {
	address string
	holds   []Hold // by partition, each once
}

const (
	// A profile of another version is ignored, and its member counts as one without state. A new
	// version needs another first byte.
	profileVersion = 1
	// maxAddress and maxHolds bound what one member can make the others keep.
	maxAddress = 1 << 10
	maxHolds   = 1 << 16
)

// append appends the profile: version, address, holds; numbers as varints, partitions as
// distances.
//
// It fails for what parseProfile would refuse, so that a member notices its own mistake and
// not its group.
func (p profile) append() (b []byte, err error) {
	if len(p.address) > maxAddress {
		return b, fmt.Errorf("the address of this process is longer than %d bytes", maxAddress)
	}
	holds := slices.Clone(p.holds)
	// By partition, so that the distances are small and a partition that is named twice shows.
	slices.SortFunc(holds, func(a, b Hold) int { return a.Partition - b.Partition })
	b = append(b, profileVersion)
	b = binary.AppendUvarint(b, uint64(len(p.address)))
	b = append(b, p.address...)
	b = binary.AppendUvarint(b, uint64(len(holds)))
	last := -1
	for _, h := range holds {
		if h.Partition <= last || h.Next < 0 || len(holds) > maxHolds {
			return b, fmt.Errorf("the state of partition %d at offset %d is told twice, or cannot be", h.Partition, h.Next)
		}
		b = binary.AppendUvarint(b, uint64(h.Partition-last-1))
		b = binary.AppendUvarint(b, uint64(h.Next))
		last = h.Partition
	}
	return b, nil
}

var errProfile = errors.New("what the member tells of itself cannot be read: another program, or another version, is in the group")

// parseProfile reads what append wrote.
//
// The bytes are whatever a member sent, also one of another program. Numbers are checked
// before they are added or converted, and memory is bounded by the bytes that are there.
func parseProfile(b []byte) (profile, error) {
	if len(b) == 0 || b[0] != profileVersion {
		return profile{}, errProfile
	}
	b = b[1:]
	// A number that is cut off or too large becomes 1<<62, which every check below refuses.
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			b = nil
			return 1 << 62
		}
		b = b[n:]
		return v
	}
	size := next()
	if size > maxAddress || size > uint64(len(b)) {
		return profile{}, errProfile
	}
	p := profile{address: string(b[:size])}
	b = b[size:]
	count := next()
	// Each hold takes at least two bytes.
	if count > maxHolds || count > uint64(len(b))/2 {
		return profile{}, errProfile
	}
	last := -1
	for range count {
		step, offset := next(), next()
		// A partition is an int32 in Kafka; last is -1 at first, so the sum wraps to step.
		if step >= 1<<31 || offset >= 1<<62 || uint64(last)+step+1 >= 1<<31 {
			return profile{}, errProfile
		}
		last += int(step) + 1
		p.holds = append(p.holds, Hold{Partition: last, Next: int64(offset)})
	}
	if len(b) != 0 {
		return profile{}, errProfile
	}
	return p, nil
}
