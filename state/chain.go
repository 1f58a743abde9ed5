package state

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// The chain shows whether what Badger found at open is a prefix of what was written.
// Badger replays each write-ahead log and table separately. It does not notice when
// one in the middle is cut short or missing, which could leave an offset ahead of its
// records.
//
// Transactions have dense versions 1, 2, 3, ... Each also writes the empty key of the
// slot version modulo chainLength. At open either all of the newest chainLength
// transactions are present, or something is missing. Older gaps are not found; they
// would have to be in tables that were complete before.
const chainLength = 16 << 10

// chainOp is what each transaction adds for the chain.
func chainOp(version uint64) *op {
	key := binary.BigEndian.AppendUint16([]byte{chainPrefix}, uint16(version%chainLength))
	return &op{entry: badger.Entry{Key: key}}
}

// checkChain returns the version of the last transaction.
func checkChain(db *badger.DB) (last uint64, err error) {
	var versions []uint64
	err = iterate(db, []byte{chainPrefix}, func(item *badger.Item) error {
		versions = append(versions, item.Version())
		last = max(last, item.Version())
		return nil
	})
	if err != nil {
		return 0, err
	}
	if newest := db.MaxVersion(); newest != last {
		return 0, damaged("transactions", fmt.Errorf("the last one known is %d, but there are keys of %d", last, newest))
	}
	if want := min(last, chainLength); uint64(len(versions)) != want {
		return 0, damaged("transactions", fmt.Errorf("%d of the last %d are missing", want-uint64(len(versions)), want))
	}
	for _, v := range versions {
		if v+chainLength <= last {
			return 0, damaged("transactions", fmt.Errorf("one of the last %d before %d is missing", chainLength, last))
		}
	}
	return last, nil
}
