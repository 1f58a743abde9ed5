package envelope

import (
	"encoding/binary"
	"fmt"

	"weir/events"
)

// unframe takes off the frame of a schema registry: a zero byte, the id of the schema
// in 4 bytes, and the value. JSON stands there as it is; Avro and Protobuf need their
// schema, which kafka.Cluster.Values gets from a registry before.
//
// Most serializers write it; those that keep the id in a header leave the value alone.
func unframe(value []byte) ([]byte, string, error) {
	const frame = 5
	if len(value) < frame {
		return nil, "", refuse(events.CodeSyntax, "a zero byte and %d more: want the frame of a schema registry, or JSON", len(value)-1)
	}
	id, inside := binary.BigEndian.Uint32(value[1:]), value[frame:]
	if len(inside) == 0 {
		return nil, "", ErrEmpty
	}
	if b := inside[0]; b != '{' && b != '[' {
		return nil, "", refuse(events.CodeSyntax, "schema %d of a schema registry, and its value is Avro or Protobuf: name the registry with --schema-registry", id)
	}
	return inside, fmt.Sprintf("schema registry (schema %d)", id), nil
}
