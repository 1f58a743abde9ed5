package adapter

// Source is a program or a library that writes logs in some format, described for its
// users.
//
// weir events describe shows it; a test holds the docs to it.
type Source struct {
	Name   string   // as on the command line
	Format string   // name of the format that reads it
	Title  string   // one line
	Known  []string // what else its users may call it
	Set    string   // what to set, so that the log is written
	Run    string   // what to run: a command line
	Flow   string   // what one flow is there
	Sees   string   // what weir can see
	Blind  string   // what it cannot
	Gives  Gives
	Sample string // a log of the source, below testdata, that Run was tried with
}
