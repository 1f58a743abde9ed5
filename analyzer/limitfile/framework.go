package limitfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// framework is one whose own limits its users know, and what those are in weir's words.
// What they allow was counted with the programs themselves, see package
// events/adapter/frameworks. Its limits are about an agent or a graph, those of weir about a
// flow, so what comes out is a beginning and says so in comments.
type framework struct {
	name     string
	title    string
	settings []frameworkSetting
}

// frameworkSetting is one limit of a framework. One without a path is known only to be reported:
// a setting that is skipped silently would look carried over.
type frameworkSetting struct {
	// In snake case; look finds other spellings of them, too.
	names    []string // as the framework spells it, in code and in files
	byItself float64  // the framework's default; 0 for no limit
	path     string   // rules.<rule>.<key>; "" when weir has no such rule
	write    func(n float64) any
	text     string // what the framework says when it is reached; %v is its number
	note     string // what its users have to know; may be empty
}

// frameworks is the table. It is made anew each time, because its functions are made with it;
// calls are rare.
func frameworks() []framework {
	calls := func(n float64) any { return integer(int64(n)) }
	seconds := func(n float64) any { return duration(time.Duration(min(n, 1e9) * float64(time.Second))) }
	// Two steps of a graph make one call of a tool.
	half := func(n float64) any { return integer(max(1, int64(n/2))) }
	money := func(n float64) any { return number(strconv.FormatFloat(n, 'f', -1, 64)) }
	const perAgent = "It is about each agent by itself, and so is max_chain_depth."
	const perMessage = "It counts the messages of the agents of one team, each of which is a call."
	return []framework{
		{"autogen", "AutoGen and AG2", []frameworkSetting{
			{names: []string{"max_round", "max_rounds"}, path: "rules.max_total_calls.max", write: calls, text: "Maximum rounds (%v) reached", note: perMessage},
			{names: []string{"max_turns"}, path: "rules.max_total_calls.max", write: calls, text: "Maximum number of turns %v reached.", note: perMessage},
			{names: []string{"max_messages"}, path: "rules.max_conversation_messages.max", write: calls, text: "Maximum number of messages %v reached"},
			{names: []string{"max_tool_iterations"}, path: "rules.max_chain_depth.max", write: calls, note: perAgent + " There it begins anew with each of its turns."},
			{names: []string{"timeout_seconds"}, path: "rules.max_flow_duration.max", write: seconds},
			{names: []string{"max_total_token"}, path: "rules.max_total_tokens.max", write: calls},
			{names: []string{"max_consecutive_auto_reply"}, note: "weir tells apart answers with work and without: see no_work_hops."},
		}},
		{"claude-code", "Claude Code", []frameworkSetting{
			{names: []string{"max_turns"}, path: "rules.max_chain_depth.max", write: calls, text: "Reached max turns (%v)", note: "A turn is one answer of the model that uses tools. " + perAgent},
			{names: []string{"max_budget_usd"}, path: "rules.max_cost_usd.max", write: money},
		}},
		{"crewai", "CrewAI", []frameworkSetting{
			{names: []string{"max_iter"}, byItself: 25, path: "rules.max_chain_depth.max", write: calls, text: "Maximum iterations reached (%v).",
				note: perAgent + " There it begins anew with each task: an agent that has several in one run needs as many times."},
			{names: []string{"max_execution_time"}, path: "rules.max_flow_duration.max", write: seconds},
			{names: []string{"max_rpm"}, note: "weir counts calls of agents and tools, and no requests to models."},
			{names: []string{"max_retry_limit"}, note: "weir counts equal errors: see repeated_error."},
		}},
		{"langgraph", "LangGraph and LangChain", []frameworkSetting{
			{names: []string{"recursion_limit"}, byItself: 25, path: "rules.max_tool_calls.max", write: half,
				text: "Recursion limit of %v reached without hitting a stop condition.",
				note: "It counts steps of the graph: one of the model and one of its tools make two. Steps without tools count there, and calls that one step makes at once count here. LangChain's create_agent sets 9,999 where nobody sets it."},
			{names: []string{"max_iterations"}, path: "rules.max_chain_depth.max", write: calls, text: "Agent stopped due to iteration limit (%v).", note: perAgent},
			{names: []string{"run_limit"}, path: "rules.max_chain_depth.max", write: calls, text: "Tool call limit reached (%v).", note: perAgent},
			{names: []string{"max_execution_time"}, path: "rules.max_flow_duration.max", write: seconds},
		}},
		{"n8n", "n8n's AI Agent", []frameworkSetting{
			{names: []string{"max_iterations"}, byItself: 10, path: "rules.max_chain_depth.max", write: calls, text: "Max iterations (%v) reached.", note: perAgent},
			{names: []string{"execution_timeout", "executions_timeout"}, path: "rules.max_flow_duration.max", write: seconds},
		}},
		{"openai-agents", "OpenAI Agents SDK", []frameworkSetting{
			{names: []string{"max_turns"}, byItself: 10, path: "rules.max_tool_calls.max", write: calls, text: "Max turns (%v) exceeded",
				note: "A turn is one answer of the model. Turns without tools count there, and calls that one turn makes at once count here."},
		}},
	}
}

// Frameworks are the names of the frameworks whose own limits can be imported. In the order of
// the table, which is that of the alphabet.
func Frameworks() (names []string) {
	for _, f := range frameworks() {
		names = append(names, f.name)
	}
	return names
}

// ImportFrom returns a limits file that says what a framework's own settings say, as far as
// weir has the rules; a comment in it names what has none. The settings are looked for in
// what their users have: configuration, workflows as JSON, code, command lines. Without
// data the framework's own defaults are taken. Of a setting that stands there several times
// the greatest is taken. The error is a *Problems, of which each names a line. Data that is
// nil means none, and an empty file is one in which no limit stands. An unknown framework is a
// plain error.
func ImportFrom(frameworkName, name string, data []byte) ([]byte, error) {
	all := frameworks()
	i := slices.IndexFunc(all, func(f framework) bool { return f.name == frameworkName })
	if i < 0 {
		return nil, fmt.Errorf("no framework is called %q; want one of %s", frameworkName, strings.Join(Frameworks(), ", "))
	}
	f := &all[i]
	r := newReader(name)
	// A limit in a comment is none.
	text := withoutComments(string(data))
	var found []frameworkLimit
	for i := range f.settings {
		s := &f.settings[i]
		l := frameworkLimit{setting: s, name: s.names[0]}
		if data == nil {
			// What has no limit by itself is not there.
			l.n, l.there = s.byItself, s.byItself > 0
		} else {
			l.look(r, text)
		}
		if l.there {
			// In the order of the table, whatever the order in the text, so the same settings
			// give the same file.
			found = append(found, l)
		}
	}
	// A file of limits without a limit would look like one that says there is none.
	if len(found) == 0 && len(r.problems.List) == 0 {
		var names []string
		for _, s := range f.settings {
			names = append(names, s.names[0])
		}
		what := "no limit of " + f.title + " stands in it"
		if data == nil {
			what = "nothing in " + f.title + " is limited unless somebody sets it"
		}
		r.problems.Add(Problem{Message: what, Hint: "known are " + strings.Join(names, ", ")})
	}
	out := f.document(found, data == nil)
	// What is made here must be a file that Parse takes.
	r.importedProblems(out, nil)
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// frameworkLimit is a setting as it was found.
type frameworkLimit struct {
	setting *frameworkSetting
	name    string  // as it stands there
	n       float64 // 0 for no limit
	// times is how often it stood there with a number.
	line  int // of the greatest; 0 for none
	times int
	there bool
}

// document writes a limits file. Each setting that was found has a line of comment, with what
// became of it: what is not carried over must be seen.
func (f *framework) document(found []frameworkLimit, byItself bool) []byte {
	// Each comment stands at the head of the file, since YAML is printed from a tree without
	// others.
	comment := "# Limits of " + f.title + ", as weir has them. Rules that are not named here are those of the profile."
	if byItself {
		comment += "\n# Nobody has set any: these are its own defaults."
	}
	rules, texts, taken := object{}, object{}, map[string]bool{}
	for _, l := range found {
		s := l.setting
		at := ""
		if l.line > 0 {
			at = fmt.Sprintf(" (line %d)", l.line)
		}
		comment += fmt.Sprintf("\n#\n# %s %s%s", l.name, l.says(), at)
		if l.times > 1 {
			comment += fmt.Sprintf(", the greatest of %d, for limits are about a flow as a whole", l.times)
		}
		// rules.<rule>.<key>, as in a limits file.
		_, rest, _ := strings.Cut(s.path, ".")
		rule, field, _ := strings.Cut(rest, ".")
		switch {
		case s.path == "":
			comment += ": not carried over."
		// The rule stays as the profile has it.
		case l.n == 0:
			comment += ": no limit here either."
		// Two of a framework's limits may be one here; the first of the table counts.
		case taken[s.path]:
			comment += ": not carried over, since " + rule + " stands for another one already."
		default:
			taken[s.path] = true
			comment += ": " + rule + "."
			rules.putIn(rule, field, s.write(l.n))
			if s.text != "" {
				// Who comes from that framework searches logs for its sentence (decision 71).
				texts.put(rule, "{head}"+fmt.Sprintf(s.text, l.n))
			}
		}
		if s.note != "" {
			comment += "\n# " + s.note
		}
	}
	doc := object{{"profile", word(Default().Profile)}}
	if len(rules) > 0 {
		doc.put("rules", rules)
	}
	if len(texts) > 0 {
		doc.put("texts", texts)
	}
	return printYAML(comment, doc)
}

// says is the number as people write it.
func (l *frameworkLimit) says() string {
	if l.n == 0 {
		return "without an end"
	}
	return strconv.FormatFloat(l.n, 'f', -1, 64)
}

// look finds the setting in a text. It looks for the name, in snake or camel case or as a flag, then
// for the sign that sets it. Then comes a number, a name to which the text gives a number, or none. The
// greatest number counts, and no limit counts as more than any number: a smaller one would stop flows
// that the program lets go on. A value that is a name without a number is a problem, since a guess would
// lose the limit.
func (l *frameworkLimit) look(r *reader, text string) {
	for _, name := range l.setting.names {
		for _, m := range settingOf(name).FindAllStringSubmatchIndex(text, -1) {
			// Of the two groups the one that is not there is at -1.
			from, to := max(m[2], m[4]), max(m[3], m[5])
			said, line := text[from:to], 1+strings.Count(text[:from], "\n")
			// The last word after a dot is what an attribute is called.
			n, ok := numberSaid(said, text)
			if !ok && (snake(said[strings.LastIndex(said, ".")+1:]) == name || isDeclaration(said) || !endsValue(text[to:])) {
				continue // it is handed on, declared, or spoken of
			}
			if !ok {
				r.problems.Add(Problem{Line: line, Column: from - strings.LastIndexByte(text[:from], '\n'), Path: name,
					Message: fmt.Sprintf("is set to %.40s, which is no number here", said), Hint: "import a copy in which the number stands there"})
				continue
			}
			// 0 is no limit, which is more than any.
			if l.times++; !l.there || n == 0 || l.n != 0 && n > l.n {
				l.n, l.line, l.name = n, line, name
			}
			l.there = true
		}
	}
}

// settingOf finds what a name is set to: "name": 5, name=5, name: int = 5, name := 5, NAME=5,
// --name 5, and "--name", "5". It looks for text and not for syntax, because the settings
// stand in many languages.
func settingOf(name string) *regexp.Regexp {
	// The two groups of the expression are the two ways in which a value is set; one of them
	// is always empty.
	const value = `([0-9][0-9_]*(?:\.[0-9]+)?|[A-Za-z_$][A-Za-z0-9_.$]*)`
	// Snake case, camel case and flags differ only in what stands between the words, and in
	// case.
	loose := strings.ReplaceAll(regexp.QuoteMeta(name), "_", "[-_]?")
	return regexp.MustCompile(`(?i)(?:(?:^|[^A-Za-z0-9_-])` + loose + `["']?\s*(?::\s*[A-Za-z][A-Za-z0-9_|\[\]. ]*=|:=|[:=])\s*["']?` + value +
		`|--` + loose + `["']?(?:[ \t]*[ \t,=][ \t]*)["']?` + value + `)`)
}

// isDeclaration reports whether a word only says what a setting may be. Such as int,
// Optional[int], z.number() or Field(...).
func isDeclaration(word string) bool {
	first, _, _ := strings.Cut(strings.ToLower(word), ".")
	return slices.Contains([]string{"int", "float", "number", "optional", "union", "field", "str", "string", "z"}, first)
}

// endsValue reports whether a value ends where a text goes on like this, so that its last word
// was all of it. Where it goes on otherwise, the word begins an expression and no number is
// known.
func endsValue(rest string) bool {
	rest = strings.TrimLeft(rest, " \t\"'")
	return rest == "" || strings.ContainsRune(",)}][(;\n\r", rune(rest[0]))
}

// numberSaid returns the number that a word is, or that the text gives to it; 0 for no limit.
// A name that the text gives a number is looked for anywhere in it: a constant mostly stands
// above its use.
func numberSaid(said, text string) (n float64, ok bool) {
	if said[0] >= '0' && said[0] <= '9' {
		// Languages write 1_000 for people; the bound keeps what follows within whole numbers.
		n, err := strconv.ParseFloat(strings.ReplaceAll(said, "_", ""), 64)
		return n, err == nil && n <= 1e15
	}
	switch strings.ToLower(said) {
	// The words of Python, JSON, JavaScript and Go for no limit.
	case "none", "null", "undefined", "nil", "infinity", "inf", "math.inf", "false", "sys.maxsize", "number.max_safe_integer":
		return 0, true
	}
	// As an assignment to that very name, in whichever language.
	at := regexp.MustCompile(`(?m)(?:^|[^A-Za-z0-9_.])` + regexp.QuoteMeta(said) + `\s*(?::\s*\w+\s*)?=\s*([0-9][0-9_]*(?:\.[0-9]+)?)`).FindStringSubmatch(text)
	if at == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(at[1], "_", ""), 64)
	return n, err == nil
}

// withoutComments blanks the comments of a text in any language, and keeps its lines.
// Text in quotes is no comment. Lines and columns of the remaining text stay the same, so
// that problems can be reported at them.
func withoutComments(text string) string {
	out := []byte(text)
	var quote byte
	for i := 0; i < len(out); i++ {
		c := out[i]
		switch {
		case quote != 0:
			// What is escaped ends nothing.
			if c == '\\' {
				i++
			} else if c == quote || c == '\n' && quote != '`' {
				quote = 0
			}
		case (c == '"' || c == '\'') && strings.HasPrefix(text[i:], strings.Repeat(string(c), 3)): // Python's, of prose
			end := strings.Index(text[i+3:], strings.Repeat(string(c), 3))
			if end < 0 {
				end = len(text) - i - 6
			}
			i = blank(out, i, i+3+end+3) - 1
		// A quote behind a letter is an apostrophe.
		case c == '"' || c == '`' || c == '\'' && (i == 0 || !isWordByte(out[i-1])):
			quote = c
		// Not inside a word, as in a color, nor behind the colon of an address.
		case c == '#' && (i == 0 || out[i-1] == ' ' || out[i-1] == '\t' || out[i-1] == '\n'), c == '/' && i+1 < len(out) && out[i+1] == '/' && (i == 0 || out[i-1] != ':'):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			i = blank(out, i, i+end) - 1
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				end = len(text) - i - 4
			}
			i = blank(out, i, i+2+end+2) - 1
		}
	}
	return string(out)
}

// blank makes spaces of what is no end of a line, and returns where it stopped.
func blank(text []byte, from, to int) int {
	for i := from; i < to; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
	return to
}

// isWordByte reports whether c belongs to a word in ASCII.
func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// KnownAs lists, by the names of rules, what frameworks call the limits that ImportFrom makes of
// theirs. It is for lists of rules, in which users look for the words that they know.
func KnownAs() map[string][]string {
	known := map[string][]string{}
	for _, f := range frameworks() {
		for _, s := range f.settings {
			if _, rest, ok := strings.Cut(s.path, "."); ok {
				rule, _, _ := strings.Cut(rest, ".")
				known[rule] = append(known[rule], s.names[0]+" ("+f.title+")")
			}
		}
	}
	return known
}
