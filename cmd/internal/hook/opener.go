package hook

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sessionNames are the variables in which an agent names its session to the programs that it
// starts. Gemini CLI, Qwen Code and Copilot CLI have none.
var sessionNames = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"}

// opener is who started the program that runs the hook, as a header of the request says it.
type opener struct{ header, value string }

// openerOf returns the opener of the session of the question. It is an agent that ran the program as a
// tool, or another flow that is named by W3C baggage or a traceparent in the environment. Of several it
// is the nearest. The zero opener means that none is named.
//
// An agent sets its own session for its hooks, too, in place of the one that it was started
// in. That one is in the environments of the processes above the hook. up yields each
// environment, the hook's own first.
func openerOf(question []byte, up iter.Seq[[]string]) opener {
	var own struct {
		Session string `json:"session_id"`
		Camel   string `json:"sessionId"`
	}
	_ = json.Unmarshal(question, &own) // a broken question is weir's to complain of
	var open []opener
	for environ := range up {
		now := openers(environ, own.Session, own.Camel)
		// A variable that is set below a process and not in its own environment was set by that
		// process. The first that is missing is therefore the nearest.
		for _, o := range open {
			if !slices.Contains(now, o) {
				return o
			}
		}
		open = now
	}
	if len(open) == 0 {
		return opener{}
	}
	return open[0]
}

// openers are all that an environment names, but for the sessions that are the hook's own.
func openers(environ []string, own ...string) (list []opener) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case value == "" || slices.Contains(own, value):
		case slices.Contains(sessionNames, name):
			list = append(list, opener{"Baggage", "weir.parent_correlation_id=" + url.PathEscape(value)})
		case name == "BAGGAGE" && strings.Contains(value, "correlation_id="):
			list = append(list, opener{"Baggage", value})
		case name == "TRACEPARENT":
			list = append(list, opener{"Traceparent", value})
		}
	}
	// Baggage names flows, and a trace is a flow only where nothing else names one.
	slices.SortStableFunc(list, func(a, b opener) int { return strings.Compare(a.header, b.header) })
	return list
}

// maxAncestors bounds the walk: a shell in a shell is seldom deeper than a dozen.
const maxAncestors = 64

// ancestors yields the environment of this process, and then those with which the processes
// above it were started, as far as the system shows them: Linux does, of the same user's.
func ancestors(yield func([]string) bool) {
	if !yield(os.Environ()) {
		return
	}
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			return
		}
		of := filepath.Join("/proc", strconv.Itoa(pid))
		environ, err := os.ReadFile(filepath.Join(of, "environ"))
		if err == nil && !yield(strings.Split(string(environ), "\x00")) {
			return
		}
		stat, err := os.ReadFile(filepath.Join(of, "stat"))
		if err != nil {
			return
		}
		// The name of the program stands in brackets and may hold anything; behind it come its
		// state and its parent.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			return
		}
		if pid, err = strconv.Atoi(string(fields[1])); err != nil {
			return
		}
	}
}
