package webhook

import (
	"fmt"

	"weir/events"
)

// incidents is what people were sent of each incident, so that one that is renewed is not sent
// again, and one that grows is sent as an update of the first message. It is in memory: after a
// restart an active incident is sent once more.
type incidents struct {
	last map[string]sent
	// The ids in the order in which they came. The oldest is forgotten first.
	order []string
}

// sent is the last message of an incident, and how many there were.
type sent struct {
	what     string
	messages int
}

// mostIncidents bounds what is remembered. An incident that is forgotten is sent anew.
const mostIncidents = 4096

// news reports whether the verdict says something that the messages before did not, and notes in n
// which message of the incident it is.
func (x *incidents) news(v *events.Verdict, n *notice) bool {
	if v.IncidentID == "" {
		return true
	}
	was, known := x.last[v.IncidentID]
	what := string(v.Action) + " " + v.Scope.String()
	if known && was.what == what {
		return false
	}
	if !known {
		if x.last == nil {
			x.last = map[string]sent{}
		}
		if len(x.order) == mostIncidents {
			delete(x.last, x.order[0])
			x.order = x.order[1:]
		}
		x.order = append(x.order, v.IncidentID)
	}
	was.what, was.messages = what, was.messages+1
	x.last[v.IncidentID] = was
	if was.messages > 1 {
		n.title = fmt.Sprintf("Update %d: %s", was.messages-1, n.title)
	}
	return true
}
