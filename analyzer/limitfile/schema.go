package limitfile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// JSONSchema returns the JSON Schema (2020-12) of limits files, made of the table
// of rules. It refuses only what is wrong at one place of a file. What depends
// on several places, such as a warning above its stop, only Parse sees. Editors check with it while a
// file is written; it checks less than Parse.
func JSONSchema() []byte {
	doc := closed(
		"What weir judges by: a profile and what differs from it. A key that is not there is as the profile has it.",
		// The sections stand in the order in which Format writes them.
		slices.Concat(flowSections(), ruleSections(), listSections()))
	// The id is a name and no address: nothing is ever loaded from there.
	doc = append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "urn:weir:schema:limits:1"},
		{"title", "weir limits"},
	}, doc...)
	// What many rules share stands once and is referred to.
	doc.put("$defs", object{
		{"mode", object{{"enum", texts(modes())}, {"description", "off: not judged. shadow: judged and counted, never an order. warn: warns, never stops. enforce: as it is written."}}},
		{"source", object{{"enum", texts(correlationSources())}}},
		{"duration", object{{"type", "string"}, {"pattern", `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}, {"examples", list{"90s", "10m", "1h30m"}}}},
	})
	var b bytes.Buffer
	// Indented, because people read it and compare two of them line by line.
	if err := json.Indent(&b, mustJSON(doc), "", "  "); err != nil {
		panic("limitfile: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// closed returns the schema of a mapping with these keys and no others. A mistyped key shows
// in the editor then.
func closed(about string, properties object) object {
	var o object
	if about != "" {
		o.put("description", about)
	}
	return append(o, pair{"type", "object"}, pair{"additionalProperties", false}, pair{"properties", properties})
}

// rulesInSchema is all in a schema that names rules. One walk over the rows makes it, so that a new row is in the schema at
// once.
type rulesInSchema struct {
	limits object // of each rule
	names  list   // of the rules about flows, which overrides and load are about
	status object // of the rules that refuse
	texts  object // of the rules that have a text
}

func namedInRules() (n rulesInSchema) {
	for _, r := range analyzer.Rows() {
		if !r.Fixed {
			n.limits.put(r.Name, ruleSchema(&r))
			// Overrides and load are about rules of flows alone.
			if !r.OfAgents() {
				n.names = append(n.names, r.Name)
			}
		}
		if r.Text != "" && !r.Fixed {
			n.texts.put(r.Name, object{{"type", "string"}, {"minLength", number("1")}, {"maxLength", number("512")}})
		}
		// A row that refuses nothing has no status.
		if r.Status != 0 {
			n.status.put(r.Name, object{{"type", "integer"}, {"minimum", number("400")}, {"maximum", number("599")}})
		}
	}
	return n
}

// flowSections is what limits say of flows, orders and attempts.
func flowSections() object {
	// The names are those of this binary: the schema of another weir may know others.
	profiles := list{}
	for _, p := range Profiles() {
		profiles = append(profiles, p)
	}
	return object{
		{"$schema", object{{"type", "string"}, {"description", "For editors; not read."}}},
		{"profile", object{{"enum", profiles}, {"default", "balanced"}, {"description", "The limits that this file changes. 'none' has every rule off."}}},
		{"identity", object{{"enum", texts(identities)}, {"description", "What makes two parties the same: the session (else the agent), or the agent (else the session)."}}},
		{"flow", closed("When an episode of a flow ends and its counters begin again.", object{
			{"idle", durationSchema("Silence that ends an episode.")},
			{"max_age", durationSchema("Longest episode; also how long it is remembered what a flow was stopped for.")},
			{"user_starts", sourceSchema("Where a user's call begins a new episode, by how the correlation id was found: where it stands for a whole conversation.")},
		})},
		{"orders", closed("How long orders to dispatchers stand.", object{
			{"ttl", durationSchema("How long an order stands; it is renewed while it holds.")},
			{"grace", durationSchema("Calls seen so soon after an order were under way, not made against it.")},
			{"hold", durationSchema("How long a flow that a rule holds (action: hold) waits for a person; then it is halted. 1h when not said, and no longer than flow.max_age.")},
		})},
		{"escalate", closed("After how many calls against an order it is widened. 0 means never.", object{
			{"pair", countSchema("To the pair, or the whole tool.")},
			{"agent", countSchema("To the agent.")},
			{"flow", countSchema("To the flow.")},
		})},
		{"warn_only", sourceSchema("Flows that are warned and never stopped, by how the correlation id was found.")},
	}
}

// ruleSections is what limits say of rules, and of what many rules share.
func ruleSections() object {
	rules := namedInRules()
	return object{
		{"rules", closed("The rules that differ from the profile. A rule is a mapping, a mode, or a number. A warning of the profile that a new stop comes before is dropped.", rules.limits)},
		{"agents", closed("What rules about agents share. They are judged over all flows; those about silence, by what agents tell of themselves and by what flows tell of them.", object{
			{"report", durationSchema("How soon a flow tells what its parties did, once in so long for each, from the first agent.status of any agent on; 0s turns it off. No silence is judged below twice as much.")},
			{"patience", durationSchema("How long an agent is believed to be in a tool or to wait.")},
			{"own_notes", object{{"enum", texts(noteWords)}, {"description", "Whether the agent's own note with the tags stuck and help needs proof, that it is stuck or may be, or is believed."}}},
			{"watch", object{{"enum", texts(watchWords)}, {"description", "Whose silence is judged: that of agents that have told their status once, or that of all."}}},
			{"recovery", object{{"enum", texts(recoveryWords)}, {"description", "automatic: a stuck agent is resumed, reviewed or archived by orders. off: it is only told of."}}},
			{"resume_within", durationSchema("How long an agent has to report after an order to resume, before it is reviewed.")},
			{"review_within", durationSchema("How long a reviewer has, before the agent is archived.")},
			{"safe_coherence", shareSchema("An agent may be resumed without a review above it.")},
			{"safe_risk", shareSchema("An agent may be resumed without a review below it.")},
		})},
		{"load", closed("Limits that shrink while everything together is busy.", object{
			{"high", countSchema("Hops per minute above which limits shrink. 0 turns it off.")},
			{"low", countSchema("Hops per minute below which they return.")},
			{"percent", object{{"type", "integer"}, {"minimum", number("1")}, {"maximum", number("100")}, {"description", "What is left of a limit."}}},
			{"scale", listSchema(object{{"enum", rules.names}}, "The rules whose limits shrink.")},
		})},
		{"degraded", closed("What calls that are asked for are judged by while the fold is behind: they do not wait for it, but are answered by what it had folded last.", object{
			{"after", durationSchema("How long the fold is behind when the mode begins. 0s turns it off: then asks wait, and fail when they have waited too long.")},
			{"until", durationSchema("How long the fold has kept up again when the mode ends.")},
			{"percent", object{{"type", "integer"}, {"minimum", number("1")}, {"maximum", number("100")}, {"description", "What is left of a limit meanwhile."}}},
			{"scale", listSchema(object{{"enum", rules.names}}, "The rules whose limits shrink. By default rates alone.")},
		})},
	}
}

// listSections is what limits say of single tools, flows, models and budgets.
func listSections() object {
	named := namedInRules()
	// The words are listed, because an editor shows nothing else of them.
	stands := "What people are told of the orders of a rule, where it is not the rule's own text. Words in it that stand for something:"
	for _, w := range rules.Words {
		stands += " " + w[0] + " " + w[1] + ";"
	}
	return object{
		{"tools", object{
			{"description", "What single tools are exempt from."}, {"type", "object"}, {"propertyNames", nameSchema("")},
			{"additionalProperties", closed("", object{
				{"ignore_args", listSchema(nameSchema(""), "Top-level arguments that change from call to call and say nothing.")},
				{"exempt", object{{"type", "boolean"}, {"description", "From every rule about repetition."}}},
			})},
		}},
		{"overrides", object{{"description", "Other limits for one project, agent, tool or flow, for a reason and until a time."}, {"type", "array"}, {"items", overrideSchema(named.names)}}},
		{"exempt", object{{"description", "Flows, agents and tools that rules leave alone because of their tags, for a reason. A flow is exempt that has one of the tags, and in any flow the calls of an agent, or of a tool, that has one."}, {"type", "array"}, {"items", exemptSchema()}}},
		{"http_status", closed("HTTP status of a refusal, where it is not the rule's own.", named.status)},
		{"texts", closed(strings.TrimSuffix(stands, ";")+".", named.texts)},
		{"prices", object{
			{"description", "What the tokens of a model cost, in US dollars for a million, where an event reports no cost. --prices FILE adds the models that are not here."}, {"type", "object"},
			{"propertyNames", nameSchema("")}, {"additionalProperties", priceSchema()},
		}},
		{"budgets", object{{"description", "What tenants, teams, agents, tools or all together may spend in a window, over all flows."}, {"type", "array"}, {"maxItems", integer(maxBudgets)}, {"items", budgetSchema()}}},
		{"subagents", object{{"description", "What each subagent of a kind may use. The first entry that fits and has the figure counts, else the rule of that figure."}, {"type", "array"}, {"maxItems", integer(maxSubagents)}, {"items", subagentSchema()}}},
		{"forecast", object{
			{"description", "What good runs spent in the end, by the service that reports them, or * for all others. 'weir limits calibrate --forecast' writes it. Only checks, the page and forecast_exceeds_budget use it."}, {"type", "object"},
			{"maxProperties", integer(maxForecastKinds)}, {"propertyNames", nameSchema("")}, {"additionalProperties", forecastSchema()},
		}},
	}
}

// windowSchema is what may stand at the window of a rule that has one.
func windowSchema(r *analyzer.Row) object {
	// A duration is bounded in words alone, since JSON Schema cannot compare texts.
	least, widest, _ := r.Windows()
	switch r.Window {
	case "seconds":
		return durationSchema("How far back it looks, from " + Amount(events.UnitSeconds, least) + " to " + Amount(events.UnitSeconds, widest) + ".")
	// Windows that are counts are whole numbers.
	case "gaps":
		return object{{"type", "integer"}, {"minimum", integer(least)}, {"maximum", integer(widest)}, {"description", "How many mean gaps between its reports have to pass as well."}}
	}
	return object{{"type", "integer"}, {"minimum", integer(least)}, {"maximum", integer(widest)}, {"description", "How many calls of the party it looks at, the last one included."}}
}

// countsOf describes the words of a rule that chooses what it counts.
func countsOf(r *analyzer.Row) string {
	switch {
	case r.OfAgents():
		return "escaped: messages without a correlation id of their own, which no rule of a flow sees together. all: every message."
	case r.Unknown:
		return "idle: hops of which the log tells that no work came before. unknown: also those of which it cannot tell, for all rules about hops without work."
	case r.Newcomers:
		return "talkers: hops to somebody who took part in the last eight. all: every hop."
	case r.Returns:
		return "distinct: each turn id once. changes: every change of the turn id, so that going back and forth between two counts."
	case r.Beginning:
		return "sliding: the calls of the window that ends now. beginning: those of the first window of an episode, and none after it."
	}
	return "delegations: calls of which transfer_mode says that they return. all: every call of a party to itself."
}

// ruleSchema is what may stand at the name of a rule: a mode, a number where the row measures
// something, or a mapping.
func ruleSchema(r *analyzer.Row) object {
	// An editor shows it beside the rule: what it measures, whose figures these are, and the
	// usual ones.
	about := r.About + " From: " + r.From + ". Balanced: " + settingText(r, &r.Default) + "."
	mode := object{{"$ref", "#/$defs/mode"}}
	// A figure for what measures nothing would be refused by Parse.
	if r.ModeOnly() {
		return object{{"description", about}, {"anyOf", list{mode, closed("", object{{"mode", mode}})}}}
	}
	// As bareIsMax reads it.
	bare := "stop, the value at which it stops"
	switch {
	case bareIsMax(r):
		bare = "max, the highest allowed value"
	case r.Silence:
		bare = "stop, how long it may last"
	}
	about = r.About + " A number alone is " + bare + "." + strings.TrimPrefix(about, r.About)
	// The greatest figure of max is one less than that of stop, as max: 5 and stop: 6 are the
	// same (decision 3).
	keys := settingSchema(r.Unit, stopMost(r, 0), stopMost(r, 1))
	// max is refused for them: silence may last so long, and no longer.
	if r.Silence {
		keys = slices.DeleteFunc(keys, func(p pair) bool { return p.key == "max" })
	}
	if r.WarnsOnly {
		for i := range keys {
			if keys[i].key == "max" || keys[i].key == "stop" {
				keys[i].value = object{{"const", "off"}}
			}
		}
		about := r.About + " A number alone is warn. From: " + r.From + ". Balanced: " + settingText(r, &r.Default) + "."
		return object{{"description", about}, {"anyOf", list{mode, bounded(r.Unit, stopMost(r, 0), 1), closed("", keys)}}}
	}
	if r.Tells {
		keys.put("tell", described(threshold(r.Unit, stopMost(r, 0), 1), "How much is left when the model begins to be told so, for example 10 of 100 calls. Off by default."))
	}
	if r.Holds {
		keys.put("action", object{{"enum", texts(actionWords)}, {"default", actionWords[0]}, {"description", "hold: instead of refusing calls for good, the whole flow waits until a person grants more, releases or stops it; see orders.hold."}})
	}
	if r.Shares {
		keys.put("reserve", described(threshold(r.Unit, stopMost(r, 0), 1), "How much of the limit each flow below the root may count on while it is at work: what it has not spent of that nobody else can spend, and a flow for which there is no share left is refused. Off by default."))
	}
	if r.Window != "" {
		keys.put("window", windowSchema(r))
	}
	if r.Blind {
		keys.put("ignore_results", object{{"type", "boolean"}, {"description", "Count a call whatever its results were, and not only without results."}})
	}
	if words := countWords(r); words != nil {
		// The usual word comes first, in the list and in the text.
		keys.put("count", object{{"enum", texts(words)}, {"description", countsOf(r)}})
	}
	if r.Paced {
		keys.put("paced", object{{"type", "boolean"}, {"description", "Whether parties that call more slowly than once in 20 s (60 s) get twice (six times) the room."}})
	}
	if r.Extend {
		keys.put("extend_on_progress", object{{"type", "boolean"}, {"description", "Whether only what came after the last evidence of progress counts: a tool call that changed something or brought something new, or an agent that returned. Where warn, stop or max is written without it, the limit is hard."}})
	}
	full := closed("", keys)
	// Both at once are refused, as by row.
	// It has to stand beside the properties, since closed makes those only.
	full.put("not", object{{"required", list{"stop", "max"}}})
	short := bounded(r.Unit, stopMost(r, 0), 1)
	if bareIsMax(r) {
		short = bounded(r.Unit, stopMost(r, 1), 0)
	}
	return object{{"description", about}, {"anyOf", list{mode, short, full}}}
}

// stopMost is the greatest threshold of the rule that its widest window lets it reach. less is
// how much lower the figure in the file is than the threshold: 1 for max.
func stopMost(r *analyzer.Row, less int64) int64 {
	_, widest, _ := r.Windows()
	// By the widest window, because the schema does not see which one the file gives.
	most, _ := r.Reach(&rules.Setting{Window: widest})
	return most - less
}

// settingSchema returns the keys that every rule has. most is for thresholds, mostAllowed for
// the figure of max.
func settingSchema(unit events.Unit, most, mostAllowed int64) object {
	return object{
		{"warn", described(threshold(unit, most, 1), "Observed value from which it warns.")},
		{"stop", described(threshold(unit, most, 1), "Observed value from which it stops.")},
		{"max", described(threshold(unit, mostAllowed, 0), "Highest allowed value: one more is refused.")},
		{"mode", object{{"$ref", "#/$defs/mode"}}},
	}
}

// described puts a sentence before the schema.
func described(o object, about string) object { return append(object{{"description", about}}, o...) }

// threshold is the schema of a figure that may be off.
// Off is a word and never a number, so that no figure has to mean never.
func threshold(unit events.Unit, most, least int64) object {
	return object{{"anyOf", list{object{{"const", "off"}}, bounded(unit, most, least)}}}
}

// bounded returns the schema of a threshold that is not off. Money is in dollars in the file
// and in millionths inside.
func bounded(unit events.Unit, most, least int64) object {
	switch unit {
	case events.UnitUSD:
		return object{{"type", "number"}, {"minimum", number("0")}, {"maximum", integer(most / 1e6)}}
	// People write 5m, and programs that make files write numbers.
	case events.UnitSeconds:
		return object{{"anyOf", list{object{{"$ref", "#/$defs/duration"}}, object{{"type", "integer"}, {"minimum", integer(least)}, {"maximum", integer(most)}}}}}
	}
	return object{{"type", "integer"}, {"minimum", integer(least)}, {"maximum", integer(most)}}
}

// overrideSchema is loose about figures, whose unit depends on the rule that is named beside
// them.
func overrideSchema(rules list) object {
	any := object{{"type", list{"number", "string"}}}
	keys := object{}
	scopes := list{}
	// Exactly one of them has to be there, which oneOf says below.
	for _, s := range []string{"project", "agent", "tool", "flow"} {
		keys.put(s, nameSchema("The "+s+" that it is for."))
		scopes = append(scopes, object{{"required", list{s}}})
	}
	keys.put("rule", object{{"enum", rules}})
	// Whether it fits is for Parse, who knows the rule and its unit.
	keys.put("warn", any)
	keys.put("stop", any)
	keys.put("max", any)
	keys.put("mode", object{{"$ref", "#/$defs/mode"}})
	keys.put("tell", any)
	keys.put("action", object{{"enum", texts(actionWords)}})
	keys.put("window", object{{"type", list{"integer", "string"}}})
	keys.put("ignore_results", object{{"type", "boolean"}})
	keys.put("paced", object{{"type", "boolean"}})
	keys.put("extend_on_progress", object{{"type", "boolean"}})
	// All words of all rows: which of them fit is for Parse, who knows the rule.
	keys.put("count", object{{"enum", texts(slices.Concat(selfWords, turnWords, rateWords, idleWords, talkWords[:1]))}})
	keys.put("reason", object{{"type", "string"}, {"minLength", number("1")}, {"maxLength", number("1024")}, {"description", "Why; it stands in the audit log."}})
	keys.put("expires", object{{"type", "string"}, {"format", "date-time"}, {"description", "When it ends."}})
	o := closed("", keys)
	o.put("required", list{"rule", "reason", "expires"})
	o.put("oneOf", scopes)
	o.put("not", object{{"required", list{"stop", "max"}}})
	return o
}

// exemptSchema names only the rules that are about something that has tags.
func exemptSchema() object {
	names := list{}
	for _, r := range analyzer.Rows() {
		if !r.Fixed && !(r.OfAgents() && (r.Counts().OfTree() || r.Counts() == agents.CountedProject)) {
			names = append(names, word(r.Name))
		}
	}
	tag := object{{"type", "string"}, {"minLength", number("1")}, {"maxLength", integer(events.MaxTag)}}
	o := closed("", object{
		{"tags", append(listSchema(tag, "Any one of them is enough, whatever its case. A label is a tag such as env=batch."), pair{"minItems", number("1")})},
		{"rules", append(listSchema(object{{"enum", names}}, "What they are exempt from."), pair{"minItems", number("1")})},
		{"mode", object{{"enum", list{word("off"), word("shadow"), word("warn")}}, {"default", word("off")}, {"description", "What the rules may still do: nothing, be judged and counted, or warn. An exemption turns nothing on."}}},
		{"reason", object{{"type", "string"}, {"minLength", number("1")}, {"maxLength", integer(maxReason)}, {"description", "Why; it stands in the audit log."}}},
		{"expires", object{{"type", "string"}, {"format", "date-time"}, {"description", "When it ends; never when not said. Not for rules about silence."}}},
	})
	o.put("required", list{"tags", "rules", "reason"})
	return o
}

// durationSchema is a length of time as Go writes it.
func durationSchema(about string) object {
	return object{{"$ref", "#/$defs/duration"}, {"description", about}}
}

// sourceSchema is a list of ways in which a correlation id was found.
func sourceSchema(about string) object { return listSchema(object{{"$ref", "#/$defs/source"}}, about) }

// listSchema is a list in which nothing may stand twice, as Parse refuses it.
func listSchema(items object, about string) object {
	return object{{"description", about}, {"type", "array"}, {"uniqueItems", true}, {"items", items}}
}

// countSchema is a whole number without an upper bound, where Parse has one that no file comes
// near.
func countSchema(about string) object {
	return object{{"type", "integer"}, {"minimum", number("0")}, {"description", about}}
}

// shareSchema is a part of one.
func shareSchema(about string) object {
	return object{{"type", "number"}, {"minimum", number("0")}, {"maximum", number("1")}, {"description", about}}
}

// nameSchema is the schema of a foreign name; about may be empty.
func nameSchema(about string) object {
	o := object{{"type", "string"}, {"minLength", number("1")}, {"maxLength", number("256")}}
	if about != "" {
		o.put("description", about)
	}
	return o
}

// texts is a list of words.
func texts(words []string) list {
	var l list
	for _, w := range words {
		l = append(l, w)
	}
	return l
}

// settingText writes a setting in words, for descriptions.
func settingText(r *analyzer.Row, s *rules.Setting) string {
	// Else a row that is off by default would be shown with figures of no meaning.
	if *s == r.Off() {
		return "off"
	}
	var parts []string
	for _, p := range describeSetting(r, s, &rules.Setting{}) {
		if v, isFlag := p.value.(bool); isFlag {
			parts = append(parts, p.key+" "+strconv.FormatBool(v))
			continue
		}
		parts = append(parts, p.key+" "+inline(p.value))
	}
	return strings.Join(parts, ", ")
}
