package outcome

import (
	"bytes"

	"weir/events"
)

// looks are programs that only print what is there.
var looks = map[string]bool{"cat": true, "head": true, "tail": true, "less": true, "more": true, "nl": true, "ls": true, "tree": true, "find": true, "fd": true, "grep": true,
	"egrep": true, "fgrep": true, "rg": true, "ag": true, "which": true, "type": true, "file": true, "stat": true, "wc": true, "pwd": true, "diff": true, "cd": true, "jq": true, "sort": true, "uniq": true, "cut": true}

// writes are programs that change files and print nothing.
var writes = map[string]bool{"mv": true, "cp": true, "rm": true, "mkdir": true, "rmdir": true, "touch": true, "chmod": true, "chown": true, "ln": true, "tee": true, "patch": true, "truncate": true, "install": true}

// gitWrites and gitLooks are what git is asked to do.
var (
	gitWrites = map[string]bool{"add": true, "apply": true, "checkout": true, "commit": true, "mv": true, "rm": true, "reset": true, "restore": true, "stash": true, "merge": true, "revert": true}
	gitLooks  = map[string]bool{"status": true, "log": true, "diff": true, "show": true, "grep": true, "branch": true, "ls-files": true, "blame": true}
)

// commandEffect is what a command of a shell does: it changes something if one of its parts does,
// and only looks if all of them do. EffectUnset where a part is none of the known programs.
func commandEffect(command []byte) events.Effect {
	if i := bytes.Index(command, []byte("<<")); i >= 0 {
		// The text of a heredoc is no command. Where it goes stands in its first line.
		if end := bytes.IndexByte(command[i:], '\n'); end >= 0 {
			command = command[:i+end]
		}
	}
	if redirects(command) {
		return events.EffectChanged
	}
	looking, known := false, true
	for part := range bytes.FieldsFuncSeq(command, func(r rune) bool { return r == ';' || r == '&' || r == '|' || r == '\n' }) {
		switch partEffect(bytes.Fields(part)) {
		case events.EffectChanged:
			return events.EffectChanged
		case events.EffectRead:
			looking = true
		default:
			known = known && len(bytes.TrimSpace(part)) == 0
		}
	}
	if looking && known {
		return events.EffectRead
	}
	return events.EffectUnset
}

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
	case writes[program]:
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
		}
	}
	return false
}
