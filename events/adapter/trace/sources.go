package trace

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "trace", Format: "trace", Sample: "golden/trace/basic.in",
			Set:   "Convert a dataset of recorded runs: dataset, trace_id, seq, ts, from, to, kind, tool, args_hash, had_work, sim, one fact per line.",
			Run:   "weir replay traces.jsonl",
			Flow:  "dataset/trace_id",
			Sees:  "All facts of the run, texts as hashes.",
			Blind: "Times, where the dataset has none; kinds of errors."},
	}
}
