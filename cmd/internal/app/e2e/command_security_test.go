package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLogin tries the passwords that people get wrong.
func TestLogin(t *testing.T) {
	b := startFake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "open sesame"), kfake.Superuser("SCRAM-SHA-256", "scram", "open sesame"))
	// A real broker says what is wrong; kfake hangs up.
	b.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Fake.KeepControl()
		if request := r.(*kmsg.SASLAuthenticateRequest); bytes.HasSuffix(request.SASLAuthBytes, []byte("barley")) {
			refused := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			refused.ErrorCode = kerr.SaslAuthenticationFailed.Code
			return refused, nil, true
		}
		return nil, nil, false
	})
	n := newNames(t)
	good, bad := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "bad")
	for file, text := range map[string]string{good: "open sesame\n", bad: "open barley\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(code int, want string, env []string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, env, n.flags("topics create --replication 1", b, args...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%v %v: exit code %d, want %d with %q in\n%s%s", env, args, got, code, want, out, errs)
		}
		if strings.Contains(out+errs, "sesame") || strings.Contains(out+errs, "barley") {
			t.Errorf("%v: the password is printed:\n%s%s", args, out, errs)
		}
	}
	f(1, "login", nil)
	f(1, "wrong user or password", nil, "--kafka-sasl", "plain", "--kafka-user", "weir", "--kafka-password-file", bad)
	f(1, "the user or the password is wrong", nil, "--kafka-sasl", "scram-sha-256", "--kafka-user", "scram", "--kafka-password-file", bad)
	f(0, "created", nil, "--kafka-sasl", "plain", "--kafka-user", "weir", "--kafka-password-file", good)
	f(0, "ok", nil, "--kafka-sasl", "scram-sha-256", "--kafka-user", "scram", "--kafka-password-file", good)
	f(0, "ok", []string{"WEIR_KAFKA_PASSWORD=open sesame", "WEIR_KAFKA_USER=weir", "WEIR_KAFKA_SASL=plain"})

	// The server ends at once, for time does not mend a password.
	args := n.flags("run --in-memory --listen 127.0.0.1:0", b, "--kafka-sasl", "plain", "--kafka-user", "weir", "--kafka-password-file", bad)
	expects(t, 1, []string{"wrong user or password"}, args...)
	expects(t, 3, []string{"fail brokers", "wrong user or password", "--kafka-password-file"},
		n.flags("doctor --in-memory", b, "--kafka-sasl", "plain", "--kafka-user", "weir", "--kafka-password-file", bad)...)
}

// TestRunWithoutTopics ends at once and says what to do.
func TestRunWithoutTopics(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	expects(t, 1, []string{"no such topic", n.events, "weir topics create"}, n.flags("run --in-memory --listen 127.0.0.1:0", b)...)
}
