package schemas

// Limits returns the schema of limits files. It is made of the table of rules; the
// tests of the analyzer hold it against that.
func Limits() []byte { return read("limits.v1.json") }
