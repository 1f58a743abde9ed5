package analyzer_test

// What is pinned here are facts about weir and a file of other projects' cases. A
// case is named by its peer and its place among that peer's cases.

var peerTallies = map[string]tally{
	"agt-feedback-loop":   {cases: 3, judged: 3, agree: 2, disagree: 1},
	"agt-rogue-detector":  {cases: 3, unjudged: 3},
	"caco":                {cases: 14, judged: 14, agree: 14},
	"cline":               {cases: 3, judged: 3, agree: 3},
	"field-must-not-stop": {cases: 5, judged: 5, agree: 5},
	"field-must-stop":     {cases: 9, judged: 9, agree: 8, disagree: 1},
	"gemini-cli":          {cases: 34, judged: 8, agree: 6, disagree: 2, unjudged: 26},
	"goose":               {cases: 1, judged: 1, agree: 1},
	"goose-fork-rep003":   {cases: 4, judged: 4, agree: 2, disagree: 2},
	"goose-fork-staged":   {cases: 16, judged: 16, agree: 9, disagree: 7},
	"litellm":             {cases: 3, judged: 3, agree: 3},
	"openclaw":            {cases: 18, judged: 18, agree: 15, disagree: 3},
	"opencode-swarm-prm":  {cases: 15, judged: 11, agree: 11, unjudged: 4},
	"openhands-sdk":       {cases: 8, judged: 7, agree: 7, unjudged: 1},
	"openhands-v0":        {cases: 14, judged: 11, agree: 10, disagree: 1, unjudged: 3},
	"roo-code":            {cases: 10, judged: 10, agree: 9, disagree: 1},
	"seed-000":            {cases: 2, judged: 2, agree: 2},
	"seed-001":            {cases: 1, judged: 1, agree: 1},
	"seed-003":            {cases: 3, judged: 3, agree: 3},
	"strands-swarm":       {cases: 3, judged: 3, agree: 3},
	"synthorg":            {cases: 19, judged: 19, agree: 16, disagree: 3},
	"unitares-loop":       {cases: 3, unjudged: 3},
	"unitares-stuck":      {cases: 8, unjudged: 8},
}

const (
	cycleNeedsResults = "a cycle of different calls is only told when the log has their results"
	needsPayload      = "arguments that are nearly equal: weir sees their hash alone"
	wholeTool         = "after repeated errors weir refuses the whole tool, until a user speaks or the order runs out"
	pairsNotCounted   = "weir has no limit on delegations of one pair that are neither equal nor in turn"
	longTurns         = "fifty different calls in one turn are honest work: the longest stretches of recorded sessions have over a hundred"
	resultsChange     = "every call brings something new, and the default limits say nothing about that"
)

// peerDisagreements says why weir and the peer differ.
var peerDisagreements = map[string]string{
	"agt-feedback-loop#3":  "the peer looks for words of refusal in the text",
	"gemini-cli#4":         cycleNeedsResults,
	"gemini-cli#5":         cycleNeedsResults,
	"goose-fork-rep003#2":  "the errors differ in a short number, which weir takes for content",
	"goose-fork-rep003#3":  "reading on in one file is paging, which weir never stops",
	"goose-fork-staged#7":  cycleNeedsResults,
	"goose-fork-staged#9":  needsPayload,
	"goose-fork-staged#10": cycleNeedsResults,
	"goose-fork-staged#11": needsPayload,
	"goose-fork-staged#12": "weir's warning stands until it runs out, the peer says it once",
	"goose-fork-staged#13": wholeTool,
	"goose-fork-staged#14": wholeTool,
	"openclaw#9":           resultsChange,
	"openclaw#10":          resultsChange,
	"openclaw#13":          resultsChange,
	"openhands-v0#3":       "the peer counts any three errors of a call, weir only equal ones",
	"roo-code#2":           "weir's order stands after the refusal, the peer begins to count again",
	"field-must-stop#9":    longTurns,
	"synthorg#9":           "to weir the first agent is on the stack, the peer counts from the first delegation",
	"synthorg#17":          pairsNotCounted,
	"synthorg#18":          pairsNotCounted,
}

// endsBeforeTheLimit lists cases that say stop and are over before weir's limit.
var endsBeforeTheLimit = map[string]string{
	"field-must-stop#9": longTurns,
}

// silentPositives lists cases in which openclaw warns and the default limits are
// silent.
var silentPositives = map[string]string{
	"openclaw#9":  resultsChange,
	"openclaw#10": resultsChange,
	"openclaw#13": resultsChange,
}

// stoppedByChoice lists cases that a peer lets pass and the default limits stop.
var stoppedByChoice = map[string]string{
	"caco#10":              "twenty messages in twenty seconds without work",
	"goose-fork-staged#14": "the sixth equal error in a row",
	"goose-fork-staged#15": "the sixth equal error in a row",
	"openclaw#11":          "the sixth equal error in a row",
}
