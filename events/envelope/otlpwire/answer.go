package otlpwire

import "google.golang.org/protobuf/encoding/protowire"

// AppendAnswer appends the answer to an export request (ExportTraceServiceResponse,
// ExportLogsServiceResponse). It is empty when nothing was rejected.
//
// Both have the same fields: field 1 is partial_success, with the number rejected and the
// reason.
func AppendAnswer(dst []byte, rejected int, why string) []byte {
	if rejected == 0 && why == "" {
		return dst
	}
	part := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(rejected))
	part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), why)
	return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), part)
}

// AppendStatus appends the answer to a request that was refused (google.rpc.Status). The
// code is one of gRPC's.
//
// Its fields are code and message.
func AppendStatus(dst []byte, code int, message string) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.VarintType), uint64(code))
	return protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), message)
}
