package schemaregistry

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync/atomic"

	"weir/events/kafka/recordbatch"
)

// The two forms of an id: in front of the value, or in a header of the record. The first byte says
// which kind of id follows.
const (
	byNumber = 0 // 4 bytes, and the value behind them
	byGUID   = 1 // 16 bytes; in headers only
	header   = "__value_schema_id"
)

// Values returns what puts JSON in place of a record's value, for kafka.Cluster. Its error is one
// that time heals, such as a registry that is away. A value that no schema fits stays as it is, so that it gets to
// the dead-letter queue unchanged; the first of them are logged.
func (r *Registry) Values(ctx context.Context) func(*recordbatch.Record, *slog.Logger) error {
	var logged atomic.Int64
	return func(record *recordbatch.Record, log *slog.Logger) error {
		path, value := pathOf(record)
		if path == "" {
			return nil
		}
		s, err := r.get(ctx, path)
		if err != nil {
			return err
		}
		refused := s.refused
		if refused == nil {
			var out []byte
			if out, refused = s.decode(value); refused == nil {
				record.Value = out
				return nil
			}
		}
		if n := logged.Add(1); n <= 5 {
			log.Warn("a value cannot be read by its schema and goes to the dead-letter queue", "offset", record.Offset, "schema", path, "err", refused)
		}
		return nil
	}
}

// pathOf returns where the registry has the schema of a record, and the value without its frame. It
// is empty where the record names no schema.
func pathOf(record *recordbatch.Record) (path string, value []byte) {
	for _, h := range record.Headers {
		if h.Key == header {
			return pathOfID(h.Value), record.Value
		}
	}
	const frame = 5
	if len(record.Value) > frame && record.Value[0] == byNumber {
		return pathOfID(record.Value[:frame]), record.Value[frame:]
	}
	return "", nil
}

func pathOfID(id []byte) string {
	switch {
	case len(id) == 5 && id[0] == byNumber:
		return fmt.Sprintf("/schemas/ids/%d", binary.BigEndian.Uint32(id[1:]))
	case len(id) == 17 && id[0] == byGUID:
		h := hex.EncodeToString(id[1:])
		return "/schemas/guids/" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	return ""
}
