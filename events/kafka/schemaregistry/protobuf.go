package schemaregistry

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protobufDecoder returns a decoder of Protobuf. The value begins with the place of its message in
// the file.
func protobufDecoder(ctx context.Context, text string, named map[string]string) (func([]byte) ([]byte, error), error) {
	const main = "value.proto"
	files := map[string]string{main: text}
	maps.Copy(files, named)
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(files)})}
	compiled, err := compiler.Compile(ctx, main)
	if err != nil {
		return nil, fmt.Errorf("schema in Protobuf: %w", err)
	}
	file := compiled[0]
	return func(value []byte) ([]byte, error) {
		kind, rest, err := messageOf(file, value)
		if err != nil {
			return nil, err
		}
		m := dynamicpb.NewMessage(kind)
		if err := proto.Unmarshal(rest, m); err != nil {
			return nil, fmt.Errorf("value in Protobuf: %w", err)
		}
		return json.Marshal(object(m))
	}, nil
}

var errPlace = errors.New("value in Protobuf: it does not begin with the place of a message of its schema")

// messageOf reads which message of the file a value is: a list of places, each inside the one
// before, with its length in front; a 0 alone is the first message.
func messageOf(file protoreflect.FileDescriptor, value []byte) (protoreflect.MessageDescriptor, []byte, error) {
	n, used := binary.Varint(value)
	if used <= 0 || n < 0 || n > 16 {
		return nil, nil, errPlace
	}
	value = value[used:]
	messages, kind := file.Messages(), protoreflect.MessageDescriptor(nil)
	for range max(1, n) {
		place := int64(0)
		if n > 0 {
			if place, used = binary.Varint(value); used <= 0 {
				return nil, nil, errPlace
			}
			value = value[used:]
		}
		if place < 0 || place >= int64(messages.Len()) {
			return nil, nil, errPlace
		}
		kind = messages.Get(int(place))
		messages = kind.Messages()
	}
	return kind, value, nil
}

// object returns a message for JSON, by the names of its fields as the schema writes them. Unlike
// Protobuf's own JSON, numbers of 64 bits are numbers. What Protobuf defines itself, such as
// timestamps, is written as Protobuf does.
func object(m protoreflect.Message) any {
	if m.Descriptor().ParentFile().Package() == "google.protobuf" {
		if text, err := protojson.Marshal(m.Interface()); err == nil {
			return json.RawMessage(text)
		}
	}
	out := map[string]any{}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch name := string(f.Name()); {
		case f.IsMap():
			entries := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = scalar(f.MapValue(), v)
				return true
			})
			out[name] = entries
		case f.IsList():
			list := make([]any, v.List().Len())
			for i := range list {
				list[i] = scalar(f, v.List().Get(i))
			}
			out[name] = list
		default:
			out[name] = scalar(f, v)
		}
		return true
	})
	return out
}

func scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return object(v.Message())
	case protoreflect.EnumKind:
		if named := f.Enum().Values().ByNumber(v.Enum()); named != nil {
			return string(named.Name())
		}
		return int32(v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x) // JSON has no such number
		}
	}
	return v.Interface()
}
