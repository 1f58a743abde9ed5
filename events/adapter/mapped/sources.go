package mapped

import "weir/events/adapter"

// example is an example of one.
//
// The row of mappings has to name a format that Lookup finds.
const example = Prefix + "correlation_id=.flow,time=.ts,kind=.type,kind.ask=agent.call,kind.tool=tool.call,kind.done=tool.result," +
	"from=.sender.id,to=.target,tool=.tool.name,args=.tool.args,result=.out"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "map", Format: example, Sample: "map/any.jsonl", Title: "JSON objects of any kind, by a mapping that you give",
			Gives: adapter.Gives{Tools: adapter.Sometimes, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Sometimes, Turn: adapter.Sometimes, Tokens: adapter.Sometimes,
				Time: adapter.Sometimes, Starts: adapter.Sometimes, Work: adapter.Sometimes, Tasks: adapter.Sometimes},
			Set:   "Say where the fields are: FIELD=PATH, with paths as in jq, on the command line or one per line in a file (--map-file). --map auto proposes them from the names in the log, and prints what they read.",
			Run:   "weir replay --map correlation_id=.flow,time=.ts,kind=.type,kind.ask=agent.call,kind.tool=tool.call,kind.done=tool.result,from=.sender.id,to=.target,tool=.tool.name,args=.tool.args,result=.out log.jsonl",
			Flow:  "correlation_id, or the first of baggage, prompt_id, trace_id, conversation_id, session_id and task_id that is mapped",
			Sees:  "What is mapped. each=.steps reads the elements of a list, each=.runs[].steps those of lists in lists; ^.id is then of the record around them, ^^.id of the one around that. weir events describe map:FIELD=PATH,... says what that is enough for.",
			Blind: "What is not. Without an id, lines that tell no time count each time they are read."},
	}
}
