package registry

import (
	"strings"
	"testing"
)

// TestProposals reads the beginnings of logs that no format fits: the error names what they are
// nearest to, and a mapping of what can be mapped.
func TestProposals(t *testing.T) {
	for head, want := range map[string]string{
		"timestamp,session,caller,callee,text,cost\n2026,s1,a,b,hello,0.1\n":   "nearest to a table (CSV); try --map 'correlation_id=.session,time=.timestamp,from=.caller,to=.callee,message=.text,cost_usd=.cost'",
		"Timestamp;Session;Caller\n2026;s1;a\n":                                "--map 'correlation_id=.Session,time=.Timestamp,from=.Caller'",
		"2026-11-20 14:00:00 INFO planner -> coder: please fix the bug, now\n": `nearest to lines of text, such as a console log`,
		"time,agent,tool,args\n2026,a,b,c\n":                                   "--map 'time=.time,from=.agent,tool=.tool,args=.args' with ,flow=PATH of the member that one run has throughout, and",
		`{"a":1}`:                                                              "looks like none of",
	} {
		if _, err := Detect([]byte(head)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", head, err, want)
		}
	}
}
