package access

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefusedFiles gives files that say something else than they seem to, or nothing.
func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	token := strings.Repeat("t", 32)
	write(t, filepath.Join(dir, "token"), token)
	write(t, filepath.Join(dir, "other"), strings.Repeat("o", 32))
	write(t, filepath.Join(dir, "short"), "short")
	write(t, filepath.Join(dir, "empty"), "\n\n")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	f := func(text, want string, o Options) {
		t.Helper()
		o.File = write(t, filepath.Join(dir, "access.yaml"), text)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	none := Options{}
	f("", "names nobody", none)
	f("# nothing\n", "names nobody", none)
	f("{}", "names nobody", none)
	f("- ann", "names of principals", none)
	f("ann:", "roles: [ingest, ask]", none)
	many := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("p%d: {token-sha256: %064x, roles: ask}\n", i, i)
		}
		return text
	}
	f(many(maxPrincipals+1), "more than 1000 principals", none)
	if _, err := New(Options{File: write(t, filepath.Join(dir, "access.yaml"), many(maxPrincipals))}); err != nil {
		t.Errorf("%d principals: %v", maxPrincipals, err)
	}
	f("ann: {roles: ask}", "nobody can be this", none)
	f("ann: {token-file: token}", "may do nothing", none)
	f("ann: {token-file: token, roles: []}", "want a text or a list", none)
	f("ann: {token-file: token, roles: king}", `no role "king"`, none)
	f("ann: {token-file: token, roles: ask, flow: x}", "did you mean flows", none)
	f("ann: {token-file: token, roles: ask, roles: admin}", "roles is given twice", none)
	f("ann: {token-file: token, roles: ask}\nann: {token-file: other, roles: ask}", "twice", none)
	f("ann: {token-file: token, roles: ask}\nbob: {token-sha256: "+sum+", roles: ask}", "a token that ann has", none)
	f("ann: {token-file: short, roles: ask}", "at least 32", none)
	f("ann: {token-file: empty, roles: ask}", "holds no token", none)
	f("ann: {token-file: missing, roles: ask}", "no such file", none)
	f("ann: {token-sha256: abc, roles: ask}", "64 hexadecimal digits", none)
	f("ann: {token-file: token, roles: ask, rate: 0}", "above 0", none)
	f("ann: {token-file: token, roles: ask, rate: NaN}", "above 0", none)
	f("ann: {token-file: token, roles: ask, rate: -1}", "above 0", none)
	f("a b: {token-file: token, roles: ask}", "without spaces", none)
	f("\"a\\e[2J\": {token-file: token, roles: ask}", "without spaces", none)
	f("a/b: {token-file: token, roles: ask}", "without spaces", none)
	f("ann: {certificate: ann, roles: ask}", "tls-client-ca-file", none)
	f("ann: {certificate: x, roles: ask}\nbob: {certificate: x, roles: ask}", "a certificate that ann has", Options{Certificates: true})
	f("ann: {token-file: token, roles: ask}", "has the intake token", Options{IntakeTokenFile: filepath.Join(dir, "token")})
	f("ann: {token-file: token, roles: ask}\n---\nbob: {token-file: other, roles: ask}", "second document", none)
}

// TestPatterns says what a star stands for.
func TestPatterns(t *testing.T) {
	for _, x := range []struct {
		patterns, name string
		want           bool
	}{{"", "x", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"a*", "a", true}, {"a*", "b", false}, {"*", "", true}, {"a,b*", "bc", true}, {"a*c", "abc", false}, {"a*c", "a*c", true}} {
		var list []string
		if x.patterns != "" {
			list = strings.Split(x.patterns, ",")
		}
		if got := matches(list, x.name); got != x.want {
			t.Errorf("%q of %q: %v", x.name, x.patterns, got)
		}
	}
}

// TestBucket uses a rate up, waits, and turns the clock back.
func TestBucket(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBucket(2)
	take := func(want time.Duration) {
		t.Helper()
		if got := b.take(now); got != want {
			t.Errorf("wait %v, want %v", got, want)
		}
	}
	take(0)
	take(0)
	take(500 * time.Millisecond)
	b.charge(2)
	take(1500 * time.Millisecond)
	now = now.Add(-time.Hour) // which gives nothing, and takes nothing
	take(1500 * time.Millisecond)
	now = now.Add(1500 * time.Millisecond)
	take(0)
	now = now.Add(24 * time.Hour) // and no more than a second is saved up
	take(0)
	take(0)
	take(500 * time.Millisecond)
	slow := newBucket(0.1)
	if slow.take(now) != 0 || slow.take(now) != 10*time.Second {
		t.Error("less than one a second")
	}
}

// TestRefusedFileChangesNoRate reads a file whose first entry has another rate, and whose
// second is refused: the first keeps the rate that it has.
func TestRefusedFileChangesNoRate(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ann", "bob"} {
		write(t, filepath.Join(dir, name), strings.Repeat(name[:1], 32))
	}
	path := write(t, filepath.Join(dir, "access.yaml"), "ann: {token-file: ann, roles: ask, rate: 100}\n")
	k, err := New(Options{File: path})
	if err != nil {
		t.Fatal(err)
	}
	rate := func() float64 { return k.ByToken(strings.Repeat("a", 32)).bucket.rate }
	write(t, path, "ann: {token-file: ann, roles: ask, rate: 7}\nbob: {certificate: bob, roles: ask}\n")
	if err := k.Load(); err == nil || rate() != 100 {
		t.Errorf("error %v, rate %v", err, rate())
	}
	write(t, path, "ann: {token-file: ann, roles: ask, rate: 7}\n")
	if err := k.Load(); err != nil || rate() != 7 {
		t.Errorf("error %v, rate %v", err, rate())
	}
}

// TestEndlessTokens names a file of tokens that is none.
func TestEndlessTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	line := strings.Repeat("x", 63) + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, maxTokens/len(line))), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := ReadTokens(path); err != nil || len(list) != maxTokens/len(line) {
		t.Errorf("%d tokens, %v", len(list), err)
	}
	if err := os.Truncate(path, maxTokens+1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a longer one is taken: %v", err)
	}
}
