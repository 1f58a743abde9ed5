package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"weir/analyzer/spelling"
	"weir/analyzer/strictyaml"
	"weir/cmd/internal/filewatch"
	"weir/events/byhand"
)

// Bounds of an access file.
// They keep a file that was made by mistake, or grew by itself, from being taken for a
// policy.
const (
	maxPrincipals = 1000
	maxName       = 64
	minToken      = 32      // characters
	maxTokens     = 1 << 20 // bytes of a file of tokens or keys
	maxFile       = 4 << 20 // bytes of an access file
	maxRate       = 1e9
)

// entry is a principal as the file has it.
// It is not in force yet: the Keeper gives it its bucket and puts it into a register.
type entry struct {
	principal *Principal
	// rate is how much a second it may do; 0 when the file sets no bound.
	rate float64
	// The tokens themselves are forgotten as soon as they are read. certificates are names
	// that certificates may have, see Keeper.ByCertificate.
	tokens       [][sha256.Size]byte // hashes
	certificates []string
}

// parse reads an access file. The error lists all its faults. files are the files that it names. A
// file with any fault gives an error and is not used, because half a policy is another policy (see
// decision 74). The files that it names are relative to its own folder.
func parse(path string, text []byte) (entries []entry, files []string, err error) {
	r := reader{path: path, problems: strictyaml.Problems{Name: path}}
	documents := strictyaml.Documents(text, 0, &r.problems)
	for i, n := range documents {
		switch {
		case strictyaml.IsNull(n):
		case i > 0:
			r.fail(n, "a second document begins here; delete the line --- before it")
		case n.Kind != yaml.MappingNode:
			r.fail(n, "want names of principals, each with what it may do, got %s", strictyaml.Describe(n))
		default:
			r.principals(n)
		}
	}
	if len(r.entries) == 0 && r.problems.Err() == nil {
		return nil, nil, fmt.Errorf("%s: it names nobody, and nobody could do anything; name somebody, or leave the file out", path)
	}
	return r.entries, r.files, r.problems.Err()
}

// reader goes through the nodes of one file. It gathers the entries and all faults, each with its line
// and column, so that one reading reports them all.
type reader struct {
	path     string
	entries  []entry
	files    []string
	problems strictyaml.Problems
}

// fail notes a fault at a node, and the reading goes on.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.problems.Add(strictyaml.Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)})
}

// principals reads the names of the file, each once. The value of each is a mapping, see
// keys.
func (r *reader) principals(n *yaml.Node) {
	if len(n.Content)/2 > maxPrincipals {
		r.fail(n, "there are more than %d principals", maxPrincipals)
		return
	}
	seen := make(map[string]bool)
	// The sender with a token of two principals would be either of them by chance. The maps find the
	// name of the first one for the message.
	tokens, certificates := make(map[[sha256.Size]byte]string), make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		switch {
		case key.Kind != yaml.ScalarNode || !isName(name):
			r.fail(key, "want the name of a principal: at most %d characters, without spaces", maxName)
			continue
		case seen[name]:
			r.fail(key, "%s: is there twice; keep one of them", name)
			continue
		case value.Kind != yaml.MappingNode:
			r.fail(value, "%s: want lines such as roles: [ingest, ask], got %s", name, strictyaml.Describe(value))
			continue
		}
		seen[name] = true
		e := r.principal(name, value)
		for _, sum := range e.tokens {
			if other := tokens[sum]; other != "" {
				r.fail(key, "%s: has a token that %s has, too; each needs its own", name, other)
			}
			tokens[sum] = name
		}
		for _, c := range e.certificates {
			if other := certificates[c]; other != "" {
				r.fail(key, "%s: has a certificate that %s has, too; each needs its own", name, other)
			}
			certificates[c] = name
		}
		// A principal without tokens and certificates, or without roles, is an unfinished line. It
		// does no harm, and is reported all the same.
		if len(e.tokens)+len(e.certificates) == 0 {
			r.fail(key, "%s: nobody can be this; give token-file, token-sha256 or certificate", name)
		}
		if e.principal.roles == 0 {
			r.fail(key, "%s: may do nothing; give roles, some of %s", name, RoleWords())
		}
		r.entries = append(r.entries, e)
	}
}

// keys are what may be said of a principal.
var keys = []string{"token-file", "token-sha256", "certificate", "roles", "sources", "flows", Tenants, Teams, "orders", "rate"}

// principal reads the settings of one name. Wrong settings are left out of the entry. The entry is
// returned whole or not, because the file is rejected at the end anyway.
func (r *reader) principal(name string, n *yaml.Node) entry {
	e := entry{principal: &Principal{Name: name, Named: true}}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			r.fail(key, "%s: %s is given twice; keep one of them", name, key.Value)
			continue
		}
		seen[key.Value] = true
		texts, ok := r.texts(value)
		if !ok {
			r.fail(value, "%s: %s: want a text or a list of them, got %s", name, key.Value, strictyaml.Describe(value))
			continue
		}
		for _, text := range texts {
			if err := r.say(&e, key.Value, text); err != nil {
				r.fail(value, "%s: %s: %v", name, key.Value, err)
			}
		}
	}
	return e
}

// say takes one setting of a principal. Keys with lists are passed once for each text, so each text
// adds to the earlier ones; for a rate the last one would count. The error has neither the name nor
// the key, which the caller adds.
func (r *reader) say(e *entry, key, text string) (err error) {
	p := e.principal
	switch key {
	// The file is noted before it is read: one that is missing now is to be seen when it
	// comes.
	case "token-file":
		if !filepath.IsAbs(text) {
			text = filepath.Join(filepath.Dir(r.path), text)
		}
		r.files = append(r.files, text)
		tokens, err := ReadTokens(text)
		for _, t := range tokens {
			e.tokens = append(e.tokens, sha256.Sum256(t))
		}
		return err
	case "token-sha256":
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("want 64 hexadecimal digits, the SHA-256 of the token: printf %%s TOKEN | sha256sum")
		}
		e.tokens = append(e.tokens, [sha256.Size]byte(sum))
	case "certificate":
		e.certificates = append(e.certificates, text)
	case "roles":
		role, err := parseRole(text)
		p.roles |= role
		return err
	case "sources":
		p.sources = append(p.sources, text)
	case "flows":
		p.flows = append(p.flows, text)
	case "orders":
		scope, err := byhand.ParseScope(text)
		if err != nil {
			return err
		}
		p.orders = append(p.orders, scope)
	case Tenants, Teams:
		i := slices.Index(payerKinds[:], key)
		p.payers[i] = append(p.payers[i], text)
	case "rate":
		if e.rate, err = strconv.ParseFloat(text, 64); err != nil || !(e.rate > 0 && e.rate <= maxRate) {
			return fmt.Errorf("want how many events, asks and other requests a second, above 0, got %s", strictyaml.Quote(text))
		}
	default:
		near := spelling.Nearest(key, keys)
		if near != "" {
			near = "; did you mean " + near
		}
		return fmt.Errorf("there is no such thing%s", near)
	}
	return nil
}

// texts returns one text, or those of a list. An empty text or an empty list is rejected: for roles it
// would mean none, for flows all.
func (r *reader) texts(n *yaml.Node) (list []string, ok bool) {
	if n.Kind == yaml.ScalarNode && n.Value != "" && !strictyaml.IsNull(n) {
		return []string{n.Value}, true
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, false
	}
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode || c.Value == "" || strictyaml.IsNull(c) {
			return nil, false
		}
		list = append(list, c.Value)
	}
	return list, true
}

// isName limits names to what a line of a log, a header and a path can hold unchanged: no spaces and
// nothing invisible. It excludes the slash, which separates a principal from the one that it speaks
// for.
func isName(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= maxName && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == '/' || c >= 0x7f && c <= 0xa0 || !strconv.IsPrint(c) })
}

// ReadTokens reads a file of tokens, one a line. The first is the one that weir itself
// shows to others; more of them are for while a token is exchanged.
// A token is everything on its line but the space at its end. Empty lines are left out; a
// file with no token, or with a short one, is an error that says how to make one.
func ReadTokens(path string) (list [][]byte, err error) {
	// A device, or a file that was named by mistake, may never end.
	text, err := filewatch.Read(path, maxTokens)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		token := strings.TrimRight(line, " \t\r\n")
		if token == "" {
			continue
		}
		if len(token) < minToken {
			return nil, fmt.Errorf("%s: a token of it has %d characters, want at least %d; make one with: head -c 32 /dev/urandom | base64 > %s", path, len(token), minToken, path)
		}
		list = append(list, []byte(token))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s holds no token; make one with: head -c 32 /dev/urandom | base64 > %s", path, path)
	}
	return slices.Clip(list), nil
}
