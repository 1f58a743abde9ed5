package main

import "fmt"

// The record of an agent, a project, a tree or an account. Times are relative to the clock of the agent, or to the
// time before them: most of an agent is times close to each other, so they take a few bytes each.
var agentRecords = []record{{
	typ: "Agent", v: "a", doc: "the record but for its version", getTakes: "h []byte",
	bits:      []bits{{name: "has", typ: "byte", read: "h[1]"}},
	before:    "version := a.version()",
	locals:    []local{{"has", "h[1]"}, {"clock", "a.clock"}},
	putLocals: []local{{"clock", "a.clock"}},
	sections: []section{
		{"Head", "the lengths of all lists, and the clock", []part{
			fixed{
				{"version", codec{1, "", "# = version", ""}},
				{"has", codec{1, "", "# = has", ""}},
				{"figures", as("figureSet")},
				count("ids"), count("stamps"), count("works"), count("messages"), count("opened"), count("tries"), count("orders"), count("notes"),
			},
			row{"clock", codec{10, "", "b = binary.AppendVarint(b, int64($))", "$ = d.Stamp(0)"}},
		}},
		{"Report", "the counts, and the last report of the agent", []part{
			row{"last", near}, row{"reported", near},
			row{"revision", amount}, row{"events", number}, row{"reports", number},
			row{"status", text}, row{"margin", text}, row{"health", text},
			behind{"has", "hasFigures", "a.coherence != 0 || a.risk != 0", []part{
				fixed{{"coherence", float}, {"risk", float}},
				// A NaN would compare as neither safe nor unsafe, and would never equal itself when states are compared.
				raw{getText: "if sum := a.coherence + a.risk; math.IsNaN(sum) || math.IsInf(sum, 0) {\nd.Fail()\n}"}}},
			behind{"has", "hasMarks", "len(a.marks) > 0", []part{row{"marks", marks}}},
		}},
		{"Lists", "events, flows and times", []part{
			list{field: "ids", limit: "a.mostIDs()", fixed: []row{{"", u64}}},
			list{field: "works", limit: "maxFlows", v: "w", add: "agentWork{}", parts: []part{
				// A state that this weir does not know counts for nothing, see quietOf.
				raw{"b = le.AppendUint64(append(b, byte(w.state)), w.flow)", "x := d.Take(9)\nw.state, w.flow = doing(x[0]), le.Uint64(x[1:])", 9, ""},
				row{"at", near}}},
			times("stamps", 4), times("messages", 6), times("opened", 7), times("tries", 8),
			behind{"has", "hasCaps", "a.caps.width != 0", []part{raw{"b = a.caps.encode(b)", "a.caps.decode(d)", 0, ""}}},
		}},
		{"Orders", "orders, silence and notes", []part{
			list{field: "orders", limit: "maxOrders", add: "one(&a.orders)", of: &agentOrderRecord},
			behind{"has", "hasStuck", "a.stuck != (stuck{})", []part{silence("stuck")}},
			behind{"has", "hasShadow", "a.shadow != (stuck{})", []part{silence("shadow")}},
			list{field: "notes", limit: "maxNotes", v: "n", add: "Note{}", parts: []part{
				row{"Time", near}, row{"Author", text}, row{"Summary", text},
				raw{"b = putTags(b, n.Tags)", "n.Tags = a.readTags(d)", 0, ""}}},
		}},
		// The ledger comes last, so a reader of agents alone never meets it.
		{"Tree", "the ledger of a tree, or the account of a budget", []part{
			when{"version == budgetCodecVersion", "!d.Bad() && h[0] == budgetCodecVersion", []part{
				raw{"b = a.budget.AppendBinary(b, clock)", "a.budget.Read(d, clock)", 0, ""}}},
			when{ofTree, "!d.Bad() && h[0] >= loneTreeCodecVersion && h[0] != budgetCodecVersion", []part{
				raw{"b = a.tree.AppendBinary(b, clock)", "a.tree.Read(d, clock)", 0, ""}}},
			when{ofTree, "!d.Bad() && (h[0] == treeCodecVersion || h[0] == startedCodecVersion)", []part{
				row{"within", text},
				list{field: "grants", limit: "maxTreeGrants", v: "g", add: "treeGrant{}", parts: []part{
					raw{"b = append(b, byte(g.rule))", "g.rule = RuleID(d.Most(d.Take(1)[0], int(RuleCount)-1))", 1, ""}, row{"most", amount}, row{"expires", near}}}}},
			when{"version == startedCodecVersion", "!d.Bad() && h[0] == startedCodecVersion", []part{
				raw{"b = a.tree.AppendStarted(b)", "a.tree.ReadStarted(d)", 0, ""}}},
		}},
	},
}, agentOrderRecord, stuckRecord}

const ofTree = "version == treeCodecVersion || version == startedCodecVersion"

// times is a list of times, each relative to the one before it: what comes in a rhythm takes two or three bytes each.
func times(field string, place int) raw {
	return raw{putText: "b = putStamps(b, a." + field + ", clock)", getText: fmt.Sprintf("a.%[1]s = readStamps(d, a.%[1]s, h[%[2]d], clock)", field, place)}
}

// silence is an episode of being stuck, of the rows in shadow mode or of the others alike.
func silence(field string) raw {
	return raw{putText: "b = a." + field + ".encode(b, clock)", getText: "a." + field + ".decode(d, clock)"}
}

// The record of an order, which is about the agent itself.
var agentOrderRecord = record{
	typ: "order", v: "o", doc: "an order", putTakes: "clock events.Stamp", getTakes: "clock events.Stamp",
	sections: []section{{"", "", []part{
		fixed{{"rule", ruleID}, {"Phase", phase},
			{"Action", codec{1, "", "# = byte($.Place())", "$ = events.ActionAt(int(d.Most(#, events.Hold.Place())))"}},
			{"Shadow", codec{1, "", bit.put, "$ = # == 1"}}, {"Limits", u32}},
		row{"Since", near}, row{"Begun", near}, row{"Issued", near}, row{"Expires", near}, row{"Due", near},
		row{"Revision", amount}, row{"Observed", amount}, row{"Limit", amount},
		row{"Attempts", small}, row{"Tried", small}, row{"Leaked", small},
		// An order without a deadline would never end, and a row that counts nothing has none.
		check("o.Due == 0 || Rules[o.rule].Counts == CountedNothing"),
	}}},
}

// The record of an episode of being stuck.
var stuckRecord = record{
	typ: "stuck", v: "s", doc: "an episode of being stuck", putTakes: "clock events.Stamp", getTakes: "clock events.Stamp",
	sections: []section{{"", "", []part{
		fixed{{"rule", ruleID}, {"step", codec{1, "", "# = byte($)", "$ = recoveryStep(d.Most(#, int(stepNotified)))"}},
			{"", codec{1, "", "# = record.Bit($.certain, 0) | record.Bit($.extended, 1)", "$.certain, $.extended = #&1 != 0, #&2 != 0"}}},
		row{"since", near}, row{"silentSince", near}, row{"due", near}, row{"issued", near},
		row{"revision", amount}, row{"reviewer", text}, row{"requestedBy", text},
	}}},
}
