package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSecure(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, empty, gone := file("secret", "hush\r\nsecond line\n"), file("empty", "\n"), filepath.Join(dir, "gone")
	f := func(s Security, secure bool, mechanism, want string) {
		t.Helper()
		c := &Cluster{}
		err := c.Secure(s)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") || c.TLS != nil || c.SASL != nil {
				t.Errorf("%+v: %v, want %q", s, err, want)
			}
			return
		}
		if err != nil || (c.TLS != nil) != secure || (c.SASL != nil) != (mechanism != "") || c.SASL != nil && c.SASL.Name() != mechanism {
			t.Errorf("%+v: %v, TLS %v, SASL %v", s, err, c.TLS, c.SASL)
		}
	}
	f(Security{}, false, "", "")
	f(Security{TLS: true}, true, "", "")
	f(Security{Mechanism: "plain", User: "u", PasswordFile: secret}, false, "PLAIN", "")
	f(Security{TLS: true, Mechanism: "scram-sha-256", User: "u", PasswordFile: secret}, true, "SCRAM-SHA-256", "")
	f(Security{Mechanism: "scram-sha-512", User: "u", Password: []byte("hush")}, false, "SCRAM-SHA-512", "")
	f(Security{Mechanism: "gssapi", User: "u", PasswordFile: secret}, false, "", "want plain, scram-sha-256, scram-sha-512 or oauthbearer")
	f(Security{Mechanism: "plain", PasswordFile: secret}, false, "", "needs a user")
	f(Security{Mechanism: "plain", User: "u"}, false, "", "password")
	f(Security{Mechanism: "plain", User: "u", PasswordFile: gone}, false, "", gone)
	f(Security{Mechanism: "plain", User: "u", PasswordFile: empty}, false, "", "first line of "+empty)
	f(Security{Mechanism: "scram-sha-256", User: "u", Password: []byte("hush\x00")}, false, "", "SCRAM does not allow")
	f(Security{User: "u"}, false, "", "need a mechanism")
	f(Security{CAFile: gone}, false, "", gone)
	f(Security{CAFile: secret}, false, "", secret)
	f(Security{CertFile: secret}, false, "", "go together")
	f(Security{CertFile: secret, KeyFile: secret}, false, "", secret)
}

func TestNewGroup(t *testing.T) {
	c := &Cluster{Brokers: []string{"localhost:9092"}}
	f := func(o GroupOptions, want string) {
		t.Helper()
		_, err := NewGroup(o)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	f(GroupOptions{Cluster: c, Group: "g", Topic: "t"}, "")
	f(GroupOptions{Cluster: c, Topic: "t"}, "a group needs")
	f(GroupOptions{Cluster: c, Group: "g"}, "a group needs")
	f(GroupOptions{Group: "g", Topic: "t"}, "a group needs")
	f(GroupOptions{Cluster: &Cluster{}, Group: "g", Topic: "t"}, "a group needs")
	f(GroupOptions{Cluster: c, Group: "g", Topic: "t", Address: strings.Repeat("x", 2000)}, "address")
	f(GroupOptions{Cluster: c, Group: "g", Topic: "t", SessionTimeout: time.Second}, "too rare")
}

func TestMemberFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "member")
	group := func(name string) *Group {
		g, err := NewGroup(GroupOptions{Cluster: &Cluster{Brokers: []string{"x:1"}}, Group: name, Topic: "t", MemberFile: file})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := group("g")
	if id := g.lastMember(); id != "" {
		t.Errorf("member %q before the first", id)
	}
	g.keepMember("one")
	g.keepMember("two")
	if id := g.lastMember(); id != "two" {
		t.Errorf("member %q", id)
	}
	if id := group("other").lastMember(); id != "" {
		t.Errorf("member %q of another group", id)
	}
	g.forgetMember()
	if id := g.lastMember(); id != "" {
		t.Errorf("member %q after an orderly end", id)
	}
	if err := os.WriteFile(file, []byte("no newline"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id := g.lastMember(); id != "" {
		t.Errorf("member %q of nonsense", id)
	}
}
