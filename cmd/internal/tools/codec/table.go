package main

// A record is a type and its fields in the order of their bytes.
type record struct {
	typ, v    string // the type and the name of its value in the functions
	doc       string
	putTakes  string  // further parameters of encode
	getTakes  string  // further parameters of decode
	bits      []bits  // bytes of presence bits
	before    string  // what encoding computes after the bits
	locals    []local // values that decoding derives from the head
	putLocals []local // the same of encoding
	sections  []section
	bound     bool // whether AtMost is written, which bounds the size
}

// bits is a value of presence bits. Encoding computes it before anything is written.
type bits struct {
	name, typ string
	start     string // the value without any bit; 0 if empty
	read      string // where decoding finds it; empty for the second byte, which is read where further stands
	clears    bool   // the bits are in the record alone: decoding clears them
}

// local is a name that decoding gives to an expression.
type local struct{ name, expr string }

// A section is a run of parts. One with a name becomes a pair of functions, so that none is long.
type section struct {
	name, doc string
	parts     []part
}

// A part is one thing in a record: a field, a list, or what a presence bit announces.
type part interface {
	put(*writer)
	get(*writer)
	most(*bound)
}

// A codec is how one value is kept. In put and get, $ is the value, @ the bytes from its place on, and # the first of
// them.
type codec struct {
	size     int    // in bytes; of one without a fixed size, at most
	len      string // what its size grows by, such as len($)
	put, get string
}

// A row is a field and its codec.
type row struct {
	field string
	codec
}

// fixed is a run of fields of fixed size. Its bytes are called h.
type fixed []row

// count is the place of a list's length among fixed fields.
func count(list string) row {
	return row{list, codec{size: 1, put: "# = byte(len($))"}}
}

// behind is what is there only if a bit is set.
type behind struct {
	in, bit, when string
	parts         []part
}

// when is what is there under a condition that other bytes decide.
type when struct {
	putIf, getIf string
	parts        []part
}

// further is a byte of more bits, which is there if a bit of the head says so.
type further struct{ in, has string }

// list is a slice of elements, at most limit of them. Its length is among the fixed fields, or before it in a byte of its own.
type list struct {
	field, limit string
	v            string // the name of an element; empty for a list of numbers
	add          string // how decoding adds an element; empty for elements of fixed size
	fixed        []row
	columns      []column // fields that no element has unless one needs it
	parts        []part
	of           *record
}

// each is what follows for every element of a list that was there before.
type each struct {
	field, v string
	parts    []part
}

// A column is a field that all elements of a list have, or none.
type column struct {
	in, bit, when string
	row
	absent string // its value before it is read
}

// raw is what no other part can describe.
type raw struct {
	putText, getText string
	size             int
	len              string
}

// check is what decoding demands of what it has read: the record is damaged if it holds.
func check(damaged string) raw { return raw{getText: "if " + damaged + " {\nd.Fail()\n}"} }

// unless ends a record early if a condition holds.
type unless struct{ putIf, getIf, instead string }
