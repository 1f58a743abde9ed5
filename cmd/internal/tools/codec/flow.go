package main

// The record of a flow. Fields of fixed size come first, since reading them takes one bounds check; then what is
// rarely there, behind presence bits; then the lists. A new field goes behind a bit of the second byte: each flow in
// memory pays for a field of the head.
var flowRecords = []record{{
	typ: "Flow", v: "f", doc: "the record but for its version", getTakes: "h []byte", bound: true,
	bits: []bits{
		{name: "has", typ: "byte", read: "h[1]"},
		{name: "flags", typ: "flowFlags", start: "f.flags", read: "f.flags", clears: true},
		{name: "more", typ: "byte"},
	},
	before:    "version := f.version(more)",
	putLocals: []local{{"clock", "f.clock"}},
	locals:    []local{{"has", "h[1]"}, {"clock", "f.clock"}, {"parties", "int(h[8])"}, {"tools", "int(h[7])"}},
	sections: []section{
		{"Head", "the numbers that every flow has, and the lengths of its lists", []part{flowHead}},
		{"Rare", "what few flows have", flowRare},
		{"", "", []part{further{"more", "h[3]&headHasMore != 0"}}},
		{"Money", "what was spent in two ways, and the payers", []part{
			behind{"more", "headHasSums", "inParts(f) && f.wholes != [4]int64{}", append(figures("parts", 4), figures("wholes", 4)...)},
			behind{"more", "headHasPayers", "len(f.payers) > 0", []part{
				list{field: "payers", limit: "maxPayers", v: "p", add: "payer{}", parts: []part{
					raw{"b = append(b, byte(p.kind))", "p.kind = budgets.Kind(d.Take(1)[0])", 1, ""}, row{"tag", text}, row{"value", text}}},
			}},
			behind{"more", "headHasSpawns", "f.spawned != 0", []part{row{"spawned", few}, row{"behind", few}}},
			behind{"more", "headHasStrays", "f.strays != 0", []part{row{"strays", few}}},
			behind{"more", "headHasWaited", "f.waited != 0", []part{row{"waited", moment}, check("f.waited < 0 || f.waited > f.clock-f.start")}},
			behind{"more", "headHasBegun", "f.flags&flagBegun != 0", []part{raw{getText: "f.flags |= flagBegun"}}}, // the bit says all
		}},
		{"Names", "events, tools and parties", []part{
			// Ids of 48 bits make room for briefs. An older weir reads those of 64.
			when{"more&headHasBriefs == 0", "more&headHasBriefs == 0", []part{list{field: "ids", limit: "maxIDs", fixed: []row{{"", u64}}}}},
			when{"more&headHasBriefs != 0", "more&headHasBriefs != 0", []part{list{field: "ids", limit: "maxIDs", fixed: []row{{"", u48}}}}},
			// Tools stand before parties, whose calls name tools by their index and are checked as they are read.
			list{field: "tools", limit: "maxTools", add: "d.String()", parts: []part{row{"", text}}},
			list{field: "parties", limit: "maxParties", add: "f.addParty()", of: &partyRecord},
			raw{getText: "if more&headHasSums == 0 {\nf.oneSum(inParts(f))\n}"},
			behind{"flags", "flagCalled", "f.anyCalled()", []part{
				each{"parties", "p", []part{row{"called", few}}},
			}},
			raw{getText: "d.Index(f.pos, parties)"}, // only now it is known how many there are
		}},
		{"Hops", "the times of hops, and the last ones without work", flowHops},
		{"Talk", "what parties said to each other, and what is counted by id", flowTalk},
		{"Orders", "orders, and what a person has set", flowOrders},
		// An older weir reads a record that ends here.
		{"", "", []part{unless{"version == plainVersion", "h[0] == plainVersion", "f.recall(f.episode)"}}},
		{"Incidents", "incidents", []part{
			each{"orders", "o", []part{row{"incident", codec{8, "", "b = le.AppendUint64(b, uint64($))", "$ = events.Stamp(le.Uint64(d.Take(8)))"}}}},
			list{field: "incidents", limit: "maxIncidents", v: "r", fixed: []row{{"rule", ruleID}, {"stopped", bit}, {"since", stamp}}},
		}},
	},
}, partyRecord, pairRecord, flowOrderRecord}

var flowHead = fixed{
	{"version", codec{1, "", "# = version", ""}},
	{"has", codec{1, "", "# = has", ""}},
	{"flags", codec{1, "", "# = byte(flags)", "$ = flowFlags(#)"}},
	{"aged", codec{1, "", "if # = $; more != 0 {\n# |= headHasMore\n}", "$ = # &^ headHasMore"}},
	{"source", as("events.CorrelationSource")},
	{"pos", u8},
	count("ids"), count("tools"), count("parties"), count("rate"), count("ring"), count("streakAt"), count("pairs"),
	count("delegations"), count("turnSeen"), count("conversations"), count("tasks"), count("orders"),
	count("offences"), count("overrides"), count("turnID"),
	{"clock", stamp},
	{"last", stamp},
	// Other code subtracts these two from the clock without a look.
	{"start", codec{8, "", stamp.put, stamp.get + "\nif f.last > f.clock || $ > f.clock {\nd.Fail()\n}"}},
	{"revision", i64},
	// The second half has none as long as there are few ids, and stands behind hasTimes.
	{"idTimes[0]", stamp},
	{"events", u32},
	{"hops", u32},
	{"toolCalls", u32},
	{"episode", u16},
	{"unique", u16},
	{"turns", u16},
	{"streak", u16},
}

var flowRare = []part{
	row{"turnID", codec{0, "len($)", "b = append(b, $...)", "$ = d.Text(int(h[20]))"}},
	behind{"has", "hasTimes", "f.forgotAt != 0 || f.released != 0 || f.idTimes[1] != 0", []part{
		fixed{{"forgotAt", stamp}, {"released", stamp}, {"idTimes[1]", stamp}, {"forgotID", u64}}}},
	behind{"has", "hasTokens", "f.tokens != [3]int64{} || f.cost != 0", append(figures("tokens", 3), row{"cost", figure})},
	behind{"has", "hasRuns", "len(f.ring) > 0", []part{row{"pairRun", runs(8)}, row{"sameRun", runs(8)}}},
	behind{"has", "hasReporting", "f.reporting[0] != 0", []part{
		raw{"b = f.reporting.encode(b, f.service != \"\")", "f.reporting.decode(d, f.flags&flagService != 0)", 16, ""}}},
	// Nothing uses these two any more.
	behind{"has", "hadReports", "", []part{raw{getText: "d.Ago(f.clock)\nd.Ago(f.clock)"}}},
	behind{"has", "hadTries", "", []part{raw{getText: "d.Ago(f.clock)\nd.Ago(f.clock)"}}},
	behind{"has", "hasTree", `f.root != ""`, []part{row{"root", text}, row{"parent", text}}},
	behind{"has", "hasMarks", "len(f.marks) > 0", []part{row{"marks", marks}}},
	behind{"flags", "flagService", `f.service != ""`, []part{row{"service", text}}},
}

var flowHops = []part{
	list{field: "rate", limit: "maxRateStamps", v: "r", fixed: []row{{"at", u32}, {"caller", party}}},
	list{field: "ring", limit: "maxRing", v: "r", fixed: []row{{"from", party}, {"to", party}, {"content", u64}, {"n", u32}}},
	list{field: "streakAt", limit: "maxBurst", fixed: []row{{"", u32}}},
}

var flowTalk = []part{
	list{field: "pairs", limit: "maxPairs", add: "f.addPair()", of: &pairRecord},
	list{field: "delegations", limit: "maxDelegations", v: "r", fixed: []row{
		{"from", party}, {"to", party}, {"algorithm", as("events.HashAlgorithm")}, {"content", u64}, {"answer", u64}, {"count", u16}, {"n", u32},
		// One more than the distance, so that 0 is never. What does not fit is longAgo, which is a time and not
		// never: a party that asks again after 49 days was not in a hurry.
		{"answered", codec{4, "", "le.PutUint32(@, uint32(min(record.Ago(f.clock, $), longAgo)))",
			"if $ = 0; le.Uint32(@) != 0 {\n$ = f.clock - events.Stamp(le.Uint32(@)-1)\n}"}}}},
	behind{"more", "headHasBriefs", "len(f.briefs) > 0", []part{
		list{field: "briefs", limit: "maxBriefs", v: "g", add: "brief{}", parts: []part{
			raw{"b = g.encode(b, f)", "g.decode(d, f, parties)", maxBrief, ""}}},
	}},
	list{field: "turnSeen", limit: "maxTurnIDs", fixed: []row{{"", u32}}},
	list{field: "conversations", limit: "maxConversations", v: "r", fixed: []row{{"id", u32}, {"n", u32}}},
	list{field: "tasks", limit: "maxTasks", v: "r", fixed: []row{{"id", u32}, {"loops", u16}, {"reflects", u16}}},
}

var flowOrders = []part{
	list{field: "orders", limit: "maxOrders", add: "f.addOrder()", of: &flowOrderRecord},
	// It would fire at a time before the last event of the flow. It was fired when the clock passed it.
	each{"orders", "o", []part{check("o.Due < f.clock")}},
	list{field: "offences", limit: "maxOffences", v: "r", fixed: []row{{"rule", ruleID}, {"count", u16}, {"last", stamp}}},
	list{field: "overrides", limit: "maxOverrides", v: "r", fixed: []row{
		{"rule", ruleID}, {"mode", as("rules.Mode")},
		// A threshold that is not set differs from one that is 0.
		{"", codec{1, "", "# = record.Bit($.warn.Set, 0) | record.Bit($.stop.Set, 1) | record.Bit($.more, 2)", "$.warn.Set, $.stop.Set, $.more = #&1 != 0, #&2 != 0, #&4 != 0"}},
		{"warn.Value", i64}, {"stop.Value", i64}, {"expires", stamp}}},
	behind{"more", "headHasGiven", "f.anyGiven()", []part{each{"overrides", "r", []part{row{"given", moment}}}}},
}

// The record of a party.
var partyRecord = record{
	typ: "party", v: "p", doc: "a party", putTakes: "clock events.Stamp", getTakes: "clock events.Stamp, parties, tools int",
	bits: []bits{
		{name: "has", typ: "byte", read: "h[7]"},
		{name: "more", typ: "byte"},
		{name: "flags", typ: "partyFlags", start: "p.flags", read: "p.flags", clears: true},
	},
	locals: []local{{"has", "h[7]"}},
	sections: []section{
		{"", "", []part{
			fixed{
				// The name is far shorter than partyHasMore.
				{"name", codec{2, "", "if le.PutUint16(@, uint16(len($))); more != 0 {\nh[1] |= partyHasMore >> 8\n}", "name := int(le.Uint16(@) &^ partyHasMore)"}},
				{"parent", party},
				{"flags", as("partyFlags")},
				count("calls"), count("seen"), count("runs"),
				{"has", codec{1, "", "# = has", "has := #"}},
				{"lastSeen", u32},
				{"revisits", u16},
				{"points", u16},
				{"chain", u16},
				// Milliseconds before the clock of the flow.
				{"did", codec{4, "", "le.PutUint32(@, before(clock, $))", "if ago := le.Uint32(@); ago != longAgo {\n$ = clock - events.Stamp(ago)\n}"}},
			},
			row{"name", codec{0, "len($)", "b = append(b, $...)", "$ = d.Text(name)"}},
			behind{"has", "partyHasOpen", "p.open != 0", []part{raw{"b = append(b, p.open)", "p.open = d.Take(1)[0]", 1, ""}}},
			behind{"has", "partyHasAgent", `p.agent != ""`, []part{row{"agent", text}}},
			behind{"has", "partyHadTries", "", []part{raw{getText: "d.Take(2)\nd.Ago(clock)"}}}, // nothing uses them any more
		}},
		{"Calls", "the calls that rules compare", partyCalls},
		{"Runs", "the keys of calls, and runs of results", partyRuns},
		{"Sums", "the last figures of sources that add up by themselves", []part{
			// As an older weir wrote it: one sum, of tokens alone.
			behind{"flags", "partyUsage", "", []part{raw{getText: "p.sums = append(p.sums, readTokens(d))"}}},
			behind{"has", "partyHasSums", "len(p.sums) > 0", []part{
				list{field: "sums", limit: "maxParties", v: "s", add: "sum{}", parts: append([]part{raw{"b = le.AppendUint32(b, s.by)", "s.by = le.Uint32(d.Take(4))", 4, ""}}, figures("told", 4)...)},
			}},
		}},
		{"", "", []part{
			further{"more", "le.Uint16(h)&partyHasMore != 0"},
			behind{"more", "partyHasContext", "p.context != 0", []part{row{"context", codec{5, "", figure.put, "$ = uint32(d.Count(math.MaxUint32))"}}}},
			behind{"more", "partyHasCourse", "p.course.calls != 0", []part{
				raw{"b = p.course.encode(b)", "p.course.decode(d)", maxCourse, ""},
			}},
			behind{"more", "partyHasJob", "p.job.since != 0", []part{
				raw{"b = p.job.encode(b, clock)", "p.job.decode(d, clock)", maxJob, ""},
			}},
			behind{"more", "partyHasCache", "p.cache.Tokens != 0", []part{
				raw{"b = p.cache.encode(b)", "p.cache.decode(d)", maxCache, ""},
			}},
		}},
	},
}

// moment is a time, or so long.
var moment = codec{10, "", figure.put, "$ = events.Stamp(d.Uvarint())"}

// few is a count that stops at rules.MaxCount.
var few = codec{3, "", figure.put, "$ = uint16(d.Count(rules.MaxCount))"}

// maxCourse is the most bytes of a course: three bytes, and numbers of at most 32 bits.
const maxCourse = 3 + 7*5

// maxJob is the most bytes of a job: four numbers.
const maxJob = 10 + 5 + 10 + 10

// maxBrief is the most bytes of a brief: what it is, what the round before came to, and the round at hand.
const maxBrief = 7 + 5 + 8 + 3 + 13

// maxCache is the most bytes of a cache: a byte, a time, and two numbers of at most 32 bits.
const maxCache = 1 + 8 + 2*5

var partyCalls = []part{
	// Calls of a party have all the same size.
	list{field: "calls", limit: "maxCalls", v: "c", fixed: []row{
		{"tool", tool}, {"flags", codec{2, "", "le.PutUint16(@, uint16($))", "$ = callFlags(le.Uint16(@))"}},
		{"id", u32}, {"at", u32}, {"n", u32}, {"args", u64}, {"result", u64}},
		columns: []column{
			{"has", "partyHasSims", "p.anySim()", row{"sim", u64}, "0"},
			{"has", "partyHasArgSims", "p.anyArgsSim()", row{"argsSim", u64}, "0"},
			// The distance in events, at most maxSpan. Without it all results came with the next event, or are not there.
			{"has", "partyHasDone", "p.anyLate()", row{"done", codec{1, "", "# = byte($ - min(c.n, $))", "if # != 0 {\n$ = c.n + uint32(#)\n}"}}, "c.atOnce()"},
		}},
}

var partyRuns = []part{
	list{field: "seen", limit: "maxSeen", fixed: []row{{"", u32}}},
	list{field: "runs", limit: "maxRuns", v: "r", fixed: []row{{"tool", tool}, {"failed", codec{1, "", bit.put, "$ = # != 0"}}, {"n", u16}, {"hash", u64}}},
	behind{"has", "partyHasCycle", "p.cycleRun != [maxPeriod + 1]uint16{}", []part{row{"cycleRun", runs(16)}}},
}

// The record of a pair. Fingerprints of answers have room where one of them has one.
var pairRecord = record{
	typ: "pair", v: "p", doc: "a pair", getTakes: "parties int",
	bits:   []bits{{name: "has", typ: "byte", read: "h[2]"}},
	locals: []local{{"has", "h[2]"}},
	sections: []section{{"", "", []part{
		fixed{
			{"from", party}, {"to", party},
			{"", codec{1, "", "# = has | record.Bit($.open, 0) | record.Bit($.fresh, 1) | record.Bit($.used, 2)", "has := #\n$.open, $.fresh, $.used = has&1 != 0, has&2 != 0, has&4 != 0"}},
			count("answers"),
			{"stale", u32}, {"same", u32}, {"lastSeen", u32},
		},
		list{field: "answers", limit: "maxAnswers", v: "a", fixed: []row{{"hash", u64}},
			columns: []column{{"has", "pairHasSims", "p.anySim()", row{"sim", u64}, "0"}}},
	}}},
}

// The record of an order. Action and scope are written by their permanent places, not by their names.
var flowOrderRecord = record{
	typ: "order", v: "o", doc: "an order", getTakes: "parties, tools int",
	sections: []section{{"", "", []part{
		fixed{
			{"rule", ruleID}, {"Phase", phase},
			{"Action", codec{1, "", "# = byte($.Place())", "$ = events.ActionAt(int(#))"}},
			{"scope", codec{1, "", "# = byte($.Place())", "$ = events.ScopeAt(int(#))"}},
			{"", codec{1, "", "# = record.Bit($.Shadow, 0) | record.Bit($.hidden, 1) | record.Bit($.lapsed, 2)", "$.Shadow, $.hidden, $.lapsed = #&1 != 0, #&2 != 0, #&4 != 0"}},
			{"wide", u8}, {"a", party}, {"b", party}, {"period", u8},
			{"kind", as("events.Kind")}, {"picks", as("selection")}, {"content.Algorithm", as("events.HashAlgorithm")},
			count("edges"), count("calls"),
			{"subject", codec{2, "", "le.PutUint16(@, uint16(len($)))", "subject := int(le.Uint16(@))"}},
			{"episode", u16}, {"Attempts", u16}, {"Tried", u16}, {"Leaked", u16},
			{"calls0", u32}, {"least", u8},
			{"Since", stamp}, {"Issued", stamp}, {"Expires", stamp}, {"Due", stamp},
			{"Revision", i64}, {"Observed", i64}, {"Limit", i64},
			{"Limits", u32},
			{"Begun", codec{4, "", "le.PutUint32(@, uint32(min(max(0, o.Issued-$), longAgo)))", "$ = o.Issued - events.Stamp(le.Uint32(@))"}},
			{"tokens0", i64}, {"content.Value", u64},
		},
		row{"subject", codec{0, "len($)", "b = append(b, $...)", "$ = d.Text(subject)"}},
		list{field: "edges", limit: "maxOrderCalls", v: "r", fixed: []row{{"from", party}, {"to", party}}},
		list{field: "calls", limit: "maxOrderCalls", v: "r", fixed: []row{{"tool", tool}, {"algorithm", as("events.HashAlgorithm")}, {"args", u64}}},
	}}},
}
