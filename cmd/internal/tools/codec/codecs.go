package main

import "fmt"

// Codecs of fixed size.
var (
	u8     = codec{size: 1, put: "# = $", get: "$ = #"}
	u16    = codec{size: 2, put: "le.PutUint16(@, $)", get: "$ = le.Uint16(@)"}
	u32    = codec{size: 4, put: "le.PutUint32(@, $)", get: "$ = le.Uint32(@)"}
	u64    = codec{size: 8, put: "le.PutUint64(@, $)", get: "$ = le.Uint64(@)"}
	u48    = codec{size: 6, put: "le.PutUint32(@, uint32($))\nle.PutUint16(@[4:], uint16($>>32))", get: "$ = uint64(le.Uint32(@)) | uint64(le.Uint16(@[4:]))<<32"}
	i64    = codec{size: 8, put: "le.PutUint64(@, uint64($))", get: "$ = int64(le.Uint64(@))"}
	stamp  = codec{size: 8, put: i64.put, get: "$ = events.Stamp(le.Uint64(@))"}
	ruleID = codec{size: 1, put: "# = byte($)", get: "$ = RuleID(d.Most(#, int(RuleCount)-1))"}
	phase  = codec{size: 1, put: "# = byte($)", get: "$ = standing.Phase(d.Most(#, int(standing.Stop)))"}
	float  = codec{size: 8, put: "le.PutUint64(@, math.Float64bits($))", get: "$ = math.Float64frombits(le.Uint64(@))"}
	party  = codec{size: 1, put: "# = $", get: "$ = d.Index(#, parties)"}
	tool   = codec{size: 1, put: "# = $", get: "$ = d.Index(#, tools)"}
	bit    = codec{size: 1, put: "# = record.Bit($, 0)", get: "$ = #&1 != 0"}
)

// as is a byte that stands for a value of the type.
func as(typ string) codec { return codec{size: 1, put: "# = byte($)", get: "$ = " + typ + "(#)"} }

// Codecs of varying size.
var (
	text   = codec{size: 3, len: "len($)", put: "b = record.AppendString(b, $)", get: "$ = d.String()"}
	marks  = codec{size: 1, len: "8*len($)", put: "b = record.AppendMarks(b, $)", get: "$ = d.Marks($, rules.MostMarks)"}
	figure = codec{size: 10, put: "b = binary.AppendUvarint(b, uint64($))", get: "$ = int64(d.Uvarint())"}
	// amount is checked, so that one more may be added.
	amount = codec{size: 10, put: figure.put, get: "$ = d.Count(1<<62)"}
	number = codec{size: 5, put: figure.put, get: "$ = uint32(d.Uvarint())"}
	small  = codec{size: 3, put: figure.put, get: "$ = uint16(d.Uvarint())"}
	// near is a time relative to the clock.
	near = codec{size: 10, put: "b = binary.AppendVarint(b, int64($-clock))", get: "$ = d.Stamp(clock)"}
)

// runs is a list of figures, most of which are 0.
func runs(most int) codec {
	return codec{size: 2 + 2*most, put: "b = record.AppendRuns(b, $[1:])", get: "d.Runs($[1:])"}
}

// figures are the rows of an array of n figures.
func figures(field string, n int) (parts []part) {
	for i := range n {
		parts = append(parts, row{fmt.Sprintf("%s[%d]", field, i), figure})
	}
	return parts
}
