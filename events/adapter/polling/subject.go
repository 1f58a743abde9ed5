package polling

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/fingerprint"
)

// Subject is what a call looks at. Calls that only wait differently have the same.
type Subject struct {
	hash   uint64
	names  []string // what the call names, of which some may be what runs in the background
	starts string   // what it starts in the background says what it does to this file
	lists  int      // lines of a result that says that something runs; 0 for a call that does not list processes
	waits  bool     // the call waits by itself
	idles  bool     // the call only waits, and returns nothing of what it waits for
	reads  bool     // it reads files, or what the agent itself plans
	acts   bool     // it brings something about, and looks at nothing
	shell  bool
}

// manners are arguments that say how a call waits, how much it may bring and what its model
// thinks of it, but not what it is about.
var manners = []string{"timeout", "timeout_ms", "yield_time_ms", "max_output_tokens", "block", "delay", "wait", "wait_seconds", "wait_up_to", "description", "justification"}

// mannersAndCommand leaves the command out as well.
var mannersAndCommand = append(slices.Clip(manners), "command", "cmd")

// Of returns what a call of a tool looks at. The hash is that of the arguments, for those
// that have nothing of manners in them.
func Of(tool string, args []byte, hash events.Hash) Subject {
	// Tools of MCP servers are named SERVER__TOOL.
	name := strings.ToLower(tool[strings.LastIndex(tool, "__")+1:])
	s := Subject{
		hash:  hash.Value,
		reads: readers[name] || strings.Contains(name, "todo") || strings.Contains(name, "plan"),
		idles: strings.HasPrefix(strings.TrimLeft(name, "_"), "sleep"),
		waits: strings.HasPrefix(strings.TrimLeft(name, "_"), "wait") || strings.HasPrefix(name, "sleep") || strings.Contains(name, "wait_for"),
	}
	s.idles = s.idles || pauses(name, args)
	s.waits = s.waits || s.idles
	s.acts = acts(name) && !s.idles
	if id := outputOf(args); id != "" {
		s.names = append(s.names, id)
	}
	command, mannered := []byte(nil), false
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		key := string(c.Key())
		mannered = mannered || slices.Contains(manners, key)
		if (key == "command" || key == "cmd") && c.Peek() == '"' {
			command, s.shell = c.Text(), true
			continue
		}
		// Nothing is written to a process that is only looked at.
		if key == "chars" && c.Peek() == '"' {
			s.acts = len(c.Text()) > 0
			continue
		}
		c.Skip()
	}
	switch {
	case mannered && !s.shell:
		s.hash = fingerprint.Args(args, manners).Value
	case s.shell:
		rest, sleeps := withoutSleep(command)
		program := firstWord(rest)
		s.reads, s.acts, s.lists = s.reads || readers[program], sends(command), listing[program]
		if program == "ps" && bytes.Contains(rest, []byte("grep")) {
			s.lists = 1 // of all processes it wants some
		}
		s.names, s.starts = appendFiles(s.names, rest), writesBehind(rest)
		s.idles = (len(rest) < len(bytes.TrimSpace(command)) || waitsOtherwise(rest)) && saysNothing(rest)
		if sleeps = sleeps || s.idles; sleeps {
			s.waits = true
			s.hash = fingerprint.Args(args, mannersAndCommand).Value ^ xxhash.Sum64(rest)
		} else {
			s.hash = fingerprint.Args(args, mannersAndCommand).Value ^ xxhash.Sum64(bytes.TrimSpace(command))
		}
	}
	s.hash ^= xxhash.Sum64String(tool)
	return s
}

// readers are the tools and the commands that return written text: a word in it about a state is not
// the state of running work.
var readers = map[string]bool{
	"read": true, "view": true, "read_file": true, "readfile": true, "read_many_files": true, "grep": true, "grep_search": true, "glob": true, "ls": true,
	"list_directory": true, "search_files": true, "codebase_search": true, "notebookread": true, "tasklist": true, "taskget": true,
	"cat": true, "head": true, "tail": true, "less": true, "more": true, "bat": true, "sed": true, "awk": true, "nl": true, "rg": true, "find": true, "echo": true, "printf": true,
}

// listing are commands that list what runs, and how many lines they print when there is something.
// A list of all processes is not among them, because callers do not wait for all processes.
var listing = map[string]int{"pgrep": 1, "squeue": 2, "qstat": 2, "bjobs": 2}

// maxNames bounds the names that are taken out of one command, and maxName how long each is.
const (
	maxNames = 4
	maxName  = 200
)

// appendFiles adds what looks like the name of a file in a command.
func appendFiles(names []string, command []byte) []string {
	for word := range bytes.FieldsSeq(command) {
		if len(names) == maxNames {
			break
		}
		if word = bytes.Trim(word, "'\";|&>"); bytes.ContainsAny(word, "./") && len(word) > 3 && len(word) <= maxName {
			names = append(names, string(word))
		}
	}
	return names
}

// writesBehind returns the file that a command in the background writes to; "" for any other.
func writesBehind(command []byte) string {
	// It is what the shell does not wait for: its last word is &.
	behind, ok := bytes.CutSuffix(command, []byte("&"))
	if !ok || bytes.HasSuffix(behind, []byte("&")) {
		return ""
	}
	_, to, ok := bytes.Cut(behind, []byte(">"))
	if !ok {
		return ""
	}
	to = bytes.TrimLeft(to, "> ")
	if i := bytes.IndexAny(to, " \t\n;&|"); i >= 0 {
		to = to[:i]
	}
	if to = bytes.Trim(to, "'\""); len(to) > maxName {
		return ""
	}
	return string(to)
}

// acting are what the names of tools begin with that bring something about. To do that again is
// no look, whatever the answer says of how it goes.
var acting = []string{"create", "submit", "send", "post", "start", "run", "launch", "deploy", "delete", "remove", "update", "put", "insert", "add", "write",
	"trigger", "exec", "cancel", "retry", "restart", "stop", "kill", "publish", "push", "upload", "pay", "transfer", "book", "invoke", "make", "set", "edit", "apply"}

// looking are what names of tools have in them that look all the same, such as deploy_status.
var looking = []string{"status", "state", "progress", "poll", "output", "result", "stdin"}

// acts reports it by the name of a tool in small letters.
func acts(name string) bool {
	in := func(part string) bool { return strings.Contains(name, part) }
	begins := func(part string) bool { return strings.HasPrefix(strings.TrimLeft(name, "_"), part) }
	return slices.ContainsFunc(acting, begins) && !slices.ContainsFunc(looking, in)
}

// sends reports whether a command sends something to a server.
func sends(command []byte) bool {
	for _, flag := range []string{"-X POST", "-XPOST", "-X PUT", "-XPUT", "-X PATCH", "-X DELETE", "--data", " -d '", " -d \"", "--post-"} {
		if bytes.Contains(command, []byte(flag)) {
			return true
		}
	}
	return false
}

// firstWord is what a command runs, behind a change of folder.
func firstWord(command []byte) string {
	for {
		command = bytes.TrimSpace(command)
		rest, ok := bytes.CutPrefix(command, []byte("cd "))
		if !ok {
			break
		}
		_, command, ok = bytes.Cut(rest, []byte("&&"))
		if !ok {
			return "cd"
		}
	}
	if i := bytes.IndexAny(command, " \t\n;|&"); i >= 0 {
		command = command[:i]
	}
	return string(command)
}

// withoutSleep removes the sleeps from a command, and reports whether they last as long as a
// pause; a loop that sleeps does.
func withoutSleep(command []byte) (rest []byte, sleeps bool) {
	ms, done := 0.0, 0
	for at := 0; ; {
		i := bytes.Index(command[at:], []byte("leep"))
		if i < 0 {
			break
		}
		end := at + i + len("leep")
		at = end
		begin, of := sleepWord(command, end)
		if of == 0 {
			continue
		}
		after, slept := sleep(command[end:])
		if slept < 0 {
			continue
		}
		ms += slept * of
		rest = append(rest, command[done:max(begin, done)]...)
		rest = bytes.TrimSuffix(rest, []byte("Start-")) // of PowerShell
		// What joins it with the rest goes with it.
		done = len(command) - len(bytes.TrimLeft(after, " \t\n;&)"))
		at = done
	}
	rest = append(rest, command[done:]...)
	loops := ms > 0 && (bytes.Contains(command, []byte("while ")) || bytes.Contains(command, []byte("until ")) || bytes.Contains(command, []byte("for ")))
	if ms > 0 {
		rest = bytes.TrimRight(rest, ";& \t\n")
	}
	return bytes.TrimSpace(rest), ms >= pause || loops
}

// sleepWord returns where the word begins that has "leep" before end, and by how much its argument counts:
// 1 for sleep, less for usleep, 0 for a word that is no sleep, such as bleep or asleep.
func sleepWord(command []byte, end int) (begin int, of float64) {
	letter := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
	for begin = end; begin > max(0, end-len("usleep")-1) && letter(command[begin-1]); begin-- {
	}
	switch {
	case end < len(command) && letter(command[end]):
		return begin, 0
	case bytes.EqualFold(command[begin:end], []byte("sleep")):
		return begin, 1
	case bytes.EqualFold(command[begin:end], []byte("usleep")):
		return begin, 1e-6
	}
	return begin, 0
}

// pausing are words in names of tools that wait for a time.
var pausing = []string{"sleep", "wait", "pause", "delay", "timer", "wakeup"}

// pauses reports whether a tool only waits: its name says so, and its arguments hold no more than
// a time and why.
func pauses(name string, args []byte) bool {
	if !slices.ContainsFunc(pausing, func(word string) bool { return strings.Contains(name, word) }) {
		return false
	}
	timed := false
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		key := strings.ToLower(string(c.Key()))
		switch next := c.Peek(); {
		case next-'0' <= 9 && !strings.HasSuffix(key, "id"):
			timed = true
			c.Skip()
		case next == '"' && (strings.Contains(key, "reason") || key == "description" || key == "message" || key == "prompt" || key == "note" || key == "thought"):
			c.Skip()
		case next == '"' && isTime(c.Text()):
			timed = true
		case next == 't', next == 'f', next == 'n':
			c.Skip()
		default:
			return false
		}
	}
	return timed && c.Err() == nil
}

// isTime reports whether a text is a duration, such as 30s or "2 minutes".
func isTime(text []byte) bool {
	rest := bytes.TrimLeft(bytes.TrimSpace(text), "0123456789.")
	if len(rest) == len(text) || len(text) > 16 {
		return false
	}
	switch strings.TrimSpace(strings.ToLower(string(rest))) {
	case "", "s", "sec", "secs", "second", "seconds", "ms", "m", "min", "mins", "minute", "minutes", "h", "hour", "hours":
		return true
	}
	return false
}

// waiters are how shells wait without a sleep.
var waiters = [...][]byte{[]byte("tail -f /dev/null"), []byte("read -t "), []byte("setTimeout("), []byte("timeout /t "), []byte("ping -c "), []byte("ping -n "), []byte("choice /t "), []byte("wait")}

// waitsOtherwise reports whether a command waits without a sleep.
func waitsOtherwise(command []byte) bool {
	for _, words := range waiters {
		i := bytes.Index(command, words)
		switch {
		case i < 0:
		case bytes.HasPrefix(words, []byte("ping")):
			// A look at another host is none.
			if bytes.Contains(command, []byte("127.0.0.1")) || bytes.Contains(command, []byte("localhost")) {
				return true
			}
		case string(words) == "wait":
			if firstWord(command) == "wait" {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// fillers are programs that show nothing of what is waited for: they print a fixed text, are the
// interpreter that sleeps, or the words of a loop around it.
var fillers = map[string]bool{"": true, "echo": true, "printf": true, "true": true, ":": true, "date": true, "bash": true, "sh": true, "zsh": true, "timeout": true, "command": true,
	"for": true, "do": true, "done": true, "in": true, "read": true, "wait": true, "powershell": true, "pwsh": true, "cmd": true, "ping": true, "choice": true, "exit": true, "Write-Host": true}

// sleepers are interpreters that may sleep.
var sleepers = map[string]bool{"python": true, "python3": true, "node": true, "perl": true, "ruby": true, "php": true, "import": true, "bun": true, "deno": true}

// maxSleeper is how long the code is at most, beside the sleep, of an interpreter that only sleeps.
const maxSleeper = 64

// saysNothing reports whether what a command runs beside its sleeps shows nothing of what it waits
// for.
func saysNothing(rest []byte) bool {
	for part := range bytes.FieldsFuncSeq(rest, func(r rune) bool { return r == ';' || r == '\n' || r == '&' || r == '|' }) {
		part = bytes.TrimSpace(part)
		switch word := firstWord(part); {
		case fillers[word], bytes.HasPrefix(part, []byte("time.")):
		case sleepers[word] && len(rest) < maxSleeper:
		case len(bytes.Trim(part, "'\"(){}EOFPY ")) == 0: // the end of a heredoc, or of a quoted command
		default:
			return false
		}
	}
	// Of commands in commands only the numbers of a loop are known.
	return !bytes.Contains(bytes.ReplaceAll(rest, []byte("$(seq "), nil), []byte("$("))
}

// sleep reads how long a sleep takes, in milliseconds, and returns what is behind it: of sleep 5,
// sleep(5), Start-Sleep -Seconds 5. It is less than 0 for what is none.
func sleep(text []byte) (rest []byte, ms float64) {
	i := 0
	for i < len(text) && i < 12 && (text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z' || bytes.IndexByte([]byte(" -(:"), text[i]) >= 0) {
		i++
	}
	begin := i
	n, unit := 0.0, 1.0
	for ; i < len(text) && (text[i]-'0' <= 9 || text[i] == '.' && unit == 1); i++ {
		if text[i] == '.' {
			unit = 0.1
			continue
		}
		if unit < 1 {
			n += unit * float64(text[i]-'0')
			unit /= 10
			continue
		}
		n = n*10 + float64(text[i]-'0')
	}
	if i == begin || begin == 0 {
		return text, -1
	}
	ms = n * 1000
	if i < len(text) {
		switch text[i] {
		case 's':
			i++
		case 'm':
			ms *= 60
			i++
		case 'h':
			ms *= 3600
			i++
		}
	}
	return text[i:], ms
}

// output is the end of the name of the file that Claude Code writes what a command in the
// background says to. The name is the id of the command.
var output = []byte(".output")

// outputOf returns the id of the command in the background whose output a call names.
func outputOf(args []byte) string {
	end := bytes.Index(args, output)
	begin := end
	for begin > 0 && wordByte(args[begin-1]) {
		begin--
	}
	if end <= begin || end-begin > maxName {
		return ""
	}
	return string(args[begin:end])
}

func wordByte(b byte) bool { return b-'0' <= 9 || b|0x20-'a' < 26 || b == '_' || b == '-' }
