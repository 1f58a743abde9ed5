package access

import (
	"fmt"
	"strings"
)

// Roles is a set of rights of a principal. Each role is a set of routes (see decision 74). A principal
// with several roles has the rights of all of them.
type Roles uint8

// The roles.
const (
	Ingest  Roles = 1 << iota // send events, spans, runs, notes
	Ask                       // ask whether calls may be made, and follow the orders that answer it
	Observe                   // read flows, verdicts, limits, agents, dead letters; try limits on logs
	Operate                   // stop, release, grant, override, rescue; be believed about users
	Admin                     // have what people edit read again

	// A file says these as words, see roleNames. Client below has none: it is what the
	// intake token gives, and a certificate where no file says whose it is.
	// Everything is what the admin token opens, Client what the intake token does.
	Everything = Ingest | Ask | Observe | Operate | Admin
	Client     = Ingest | Ask | Observe
)

// roleNames are in the order of the bits. Who operates sees what is operated, and an
// administrator may do everything.
var roleNames = [...]struct {
	name  string
	gives Roles
}{{"ingest", Ingest}, {"ask", Ask}, {"observe", Observe}, {"operate", Operate | Observe}, {"admin", Everything}}

// RoleWords lists the roles as files have them.
// It is for messages, and in the order of roleNames.
func RoleWords() string {
	words := make([]string, len(roleNames))
	for i, r := range roleNames {
		words[i] = r.name
	}
	return strings.Join(words, ", ")
}

// String lists the roles, with "or" between them, for the error that a sender without them gets. It
// names each role whose own bit is set, not the other roles that its word gives.
func (r Roles) String() string { return strings.Join(r.Names(), " or ") }

// Names lists the roles whose own bit is set.
func (r Roles) Names() (words []string) {
	for i, known := range roleNames {
		if r&(1<<i) != 0 {
			words = append(words, known.name)
		}
	}
	return words
}

// parseRole reads one word of an access file. What it returns may be more than one role,
// since some words give others, too.
func parseRole(word string) (Roles, error) {
	for _, known := range roleNames {
		if word == known.name {
			return known.gives, nil
		}
	}
	return 0, fmt.Errorf("there is no role %q; want some of %s", word, RoleWords())
}
