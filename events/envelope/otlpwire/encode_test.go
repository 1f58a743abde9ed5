package otlpwire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// protobuf writes OTLP JSON in protobuf, the fields of each message from the last to
// the first when backwards is set, as some senders do. It is the inverse of AppendJSON
// and shares its table; that the table is right is tested against the collector's own
// library, in the module of the end-to-end tests.
func protobuf(t testing.TB, batch []byte, s Signal, backwards bool) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(batch))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	m := tracesData
	if s == Logs {
		m = logsData
	}
	return encode(t, m, tree, backwards)
}

func encode(t testing.TB, m *message, tree map[string]any, backwards bool) []byte {
	t.Helper()
	var out []byte
	for i := range m.fields {
		f := &m.fields[i]
		v, ok := tree[f.name]
		if !ok {
			continue
		}
		list := []any{v}
		if f.list {
			list, _ = v.([]any)
		}
		var mine []byte
		for _, v := range list {
			mine = protowire.AppendTag(mine, f.number, wire[f.form])
			mine = encodeValue(t, mine, f, v, backwards)
		}
		if backwards {
			out = append(mine, out...)
		} else {
			out = append(out, mine...)
		}
	}
	return out
}

func encodeValue(t testing.TB, dst []byte, f *field, v any, backwards bool) []byte {
	t.Helper()
	s, _ := v.(string)
	if n, ok := v.(json.Number); ok {
		s = n.String()
	}
	number := func() uint64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		return uint64(n)
	}
	switch f.form {
	case object:
		inside, _ := v.(map[string]any)
		return protowire.AppendBytes(dst, encode(t, f.of, inside, backwards))
	case text:
		return protowire.AppendString(dst, s)
	case id, encoded:
		b, err := hex.DecodeString(s)
		if f.form == encoded {
			b, err = base64.StdEncoding.DecodeString(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendBytes(dst, b)
	case boolean:
		yes, _ := v.(bool)
		return protowire.AppendVarint(dst, protowire.EncodeBool(yes))
	case double:
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	case long:
		return binary.LittleEndian.AppendUint64(dst, number())
	case short:
		return binary.LittleEndian.AppendUint32(dst, uint32(number()))
	}
	return protowire.AppendVarint(dst, number())
}
