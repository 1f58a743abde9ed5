package schemas

// Config returns the schema of configuration files. It is made of the flags of weir
// run; the tests of the command hold it against those.
func Config() []byte { return read("config.v1.json") }
