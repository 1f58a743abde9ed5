package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Hold says that a member has the state of a partition up to before offset Next.
type Hold struct {
	Partition int
	Next      int64
}

// profile is what a member tells the others of itself when it joins.
type profile struct {
	address string
	holds   []Hold // by partition, each once
}

const (
	profileVersion = 1
	// maxAddress and maxHolds bound what one member can make the others keep.
	maxAddress = 1 << 10
	maxHolds   = 1 << 16
)

// append appends the profile: version, address, holds; numbers as varints, partitions as
// distances.
func (p profile) append(b []byte) ([]byte, error) {
	if len(p.address) > maxAddress {
		return b, fmt.Errorf("the address of this process is longer than %d bytes", maxAddress)
	}
	holds := slices.Clone(p.holds)
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
func parseProfile(b []byte) (profile, error) {
	if len(b) == 0 || b[0] != profileVersion {
		return profile{}, errProfile
	}
	b = b[1:]
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
	if count > maxHolds || count > uint64(len(b))/2 {
		return profile{}, errProfile
	}
	last := -1
	for range count {
		step, offset := next(), next()
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
