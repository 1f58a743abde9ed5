package outcome

import (
	"bytes"
	"slices"

	"weir/events"
)

// looks are programs that only print what is there.
var looks = map[string]bool{"cat": true, "head": true, "tail": true, "less": true, "more": true, "nl": true, "ls": true, "tree": true, "find": true, "fd": true, "grep": true,
	"egrep": true, "fgrep": true, "rg": true, "ag": true, "which": true, "type": true, "file": true, "stat": true, "wc": true, "pwd": true, "diff": true, "cd": true, "jq": true, "sort": true, "uniq": true, "cut": true}

// writes are programs that change files and print nothing.
var writes = map[string]bool{"mv": true, "cp": true, "rm": true, "mkdir": true, "rmdir": true, "touch": true, "chmod": true, "chown": true, "ln": true, "tee": true, "patch": true, "truncate": true, "install": true}

// fixers are flags by which programs that check files also change them, such as prettier --write.
var fixers = []string{"--write", "--fix", "--fix-all", "--in-place", "--inplace"}

// formatters are programs that change the files that they are given.
var formatters = map[string]bool{"gofmt": true, "goimports": true, "black": true, "isort": true, "rustfmt": true, "autopep8": true, "ed": true, "apply_patch": true, "dos2unix": true}

// codeWrites are what code has in it that writes a file, for interpreters that are given their code
// in the command.
var codeWrites = [...][]byte{[]byte("'w'"), []byte("\"w\""), []byte("'a'"), []byte("\"a\""), []byte("write_text("), []byte("writeFileSync("), []byte("writeFile("), []byte("File.write("),
	[]byte("File.WriteAll"), []byte("appendFileSync("), []byte("Set-Content"), []byte("Out-File"), []byte("Add-Content")}

// interpreters are programs that run code.
var interpreters = map[string]bool{"python": true, "python3": true, "node": true, "ruby": true, "perl": true, "php": true, "deno": true, "bun": true, "pwsh": true, "powershell": true}

// gitWrites and gitLooks are what git is asked to do.
var (
	gitWrites = map[string]bool{"add": true, "apply": true, "checkout": true, "commit": true, "mv": true, "rm": true, "reset": true, "restore": true, "stash": true, "merge": true, "revert": true}
	gitLooks  = map[string]bool{"status": true, "log": true, "diff": true, "show": true, "grep": true, "branch": true, "ls-files": true, "blame": true}
)

// commandEffect is what a command of a shell does: it changes something if one of its parts does,
// and only looks if all of them do. EffectUnset where a part is none of the known programs. Of a
// command that changes something it also reports whether it does nothing else, so that what it
// prints only says so.
func commandEffect(command []byte) (effect events.Effect, only bool) {
	if runsCodeThatWrites(command) {
		return events.EffectChanged, true
	}
	command = withoutHeredoc(command)
	looking, changing, only := false, redirects(command), true
	for part := range bytes.FieldsFuncSeq(command, func(r rune) bool { return r == ';' || r == '&' || r == '|' || r == '\n' }) {
		words := bytes.Fields(part)
		switch partEffect(words) {
		case events.EffectChanged:
			changing = true
		case events.EffectRead:
			looking = true
		default:
			only = only && (len(words) == 0 || says[string(words[0])])
		}
	}
	switch {
	case changing:
		return events.EffectChanged, only
	case looking && only:
		return events.EffectRead, only
	}
	return events.EffectUnset, false
}

// withoutHeredoc removes the text of a heredoc, which is no command. Where it goes is in its first
// line, and behind it more commands may follow.
func withoutHeredoc(command []byte) []byte {
	i := bytes.Index(command, []byte("<<"))
	if i < 0 || bytes.HasPrefix(command[i:], []byte("<<<")) {
		return command
	}
	end := bytes.IndexByte(command[i:], '\n')
	if end < 0 {
		return command
	}
	head, text := command[:i+end], command[i+end+1:]
	word := bytes.TrimLeft(command[i+2:i+end], "- ")
	if n := bytes.IndexAny(word, " \t;|&)>"); n >= 0 {
		word = word[:n]
	}
	word = bytes.Trim(word, "'\"\\")
	for line := range bytes.Lines(text) {
		text = text[len(line):]
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), word); ok && (len(rest) == 0 || bytes.IndexByte([]byte(" ;&|)"), rest[0]) >= 0) {
			return slices.Concat(head, []byte("\n"), rest, []byte("\n"), text)
		}
	}
	return head
}

// says are programs that neither look at anything nor change it.
var says = map[string]bool{"echo": true, "printf": true, "true": true, ":": true, "set": true, "export": true}

// partEffect is what one program with its arguments does.
func partEffect(words [][]byte) events.Effect {
	for len(words) > 0 && (string(words[0]) == "sudo" || bytes.IndexByte(words[0], '=') > 0) {
		words = words[1:]
	}
	if len(words) == 0 {
		return events.EffectUnset
	}
	program := string(words[0][bytes.LastIndexByte(words[0], '/')+1:])
	switch {
	case looks[program] && !(program == "find" && hasAny(words, "-delete", "-exec")):
		return events.EffectRead
	case writes[program], formatters[program], hasAny(words[1:], fixers...):
		return events.EffectChanged
	case program == "sed" || program == "perl":
		for _, w := range words[1:] {
			if bytes.HasPrefix(w, []byte("-i")) || bytes.HasPrefix(w, []byte("--in-place")) || program == "perl" && bytes.HasPrefix(w, []byte("-pi")) {
				return events.EffectChanged
			}
		}
		if program == "sed" {
			return events.EffectRead
		}
	case program == "git" && len(words) > 1 && gitWrites[string(words[1])]:
		return events.EffectChanged
	case program == "git" && len(words) > 1 && gitLooks[string(words[1])]:
		return events.EffectRead
	}
	return events.EffectUnset
}

// runsCodeThatWrites reports whether a command begins with an interpreter, behind a change of folder,
// and holds code that writes a file.
func runsCodeThatWrites(command []byte) bool {
	for {
		command = bytes.TrimSpace(command)
		rest, ok := bytes.CutPrefix(command, []byte("cd "))
		if !ok {
			break
		}
		if _, command, ok = bytes.Cut(rest, []byte("&&")); !ok {
			return false
		}
	}
	program, code, _ := bytes.Cut(command, []byte(" "))
	if !interpreters[string(program[bytes.LastIndexByte(program, '/')+1:])] || !bytes.Contains(code, []byte("<<")) && !bytes.Contains(code, []byte("-c")) && !bytes.Contains(code, []byte("-e")) && !bytes.Contains(code, []byte("-r")) {
		return false
	}
	for _, words := range codeWrites {
		if bytes.Contains(code, words) {
			return true
		}
	}
	return false
}

func hasAny(words [][]byte, flags ...string) bool {
	for _, w := range words {
		for _, f := range flags {
			if string(w) == f {
				return true
			}
		}
	}
	return false
}

// redirects reports whether a command writes its output into a file. What goes to the null device,
// or from one stream into another, is kept nowhere.
func redirects(command []byte) bool {
	quote := byte(0)
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			i++
		case c == '>' && (i == 0 || command[i-1] != '-' && command[i-1] != '='):
			to := bytes.TrimLeft(command[i+1:], "> ")
			if !bytes.HasPrefix(to, []byte("&")) && !bytes.HasPrefix(to, []byte("/dev/null")) && len(to) > 0 && to[0] != '=' {
				return true
			}
			i = len(command) - len(to) - 1 // all signs up to there lead to the same
		}
	}
	return false
}
