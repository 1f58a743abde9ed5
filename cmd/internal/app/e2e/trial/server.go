package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/cmd/weirtest"
)

// server is a Kafka broker in a process of its own: it can be killed and comes back
// with what it held.
// Members and the trial are clients of it like any other. kfake starts in an instant and is
// enough for most; what brokers really do is only known of Apache Kafka.
type server struct {
	real bool // Apache Kafka by kafka.sh, else kfake
	auth bool // there are listeners that want a login as well
	// What is produced is compressed, which takes it a fifth of the room.
	compress bool
	addr     string
	dir      string
	// An Apache Kafka is not a child of this process: kafka.sh keeps its pid in dir.
	cmd *exec.Cmd // of the kfake
}

// newServer returns a broker that keeps its data in dir. It listens on ports that are
// free now.
// Nothing runs yet.
func newServer(real bool, dir string) (*server, error) {
	port, err := weirtest.Ports(4) // kafka.sh takes those that follow as well
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &server{real: real, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir}, nil
}

// loginAddr and tlsAddr are the listeners of a server with auth, see kafka.sh. The first
// is, with kfake, a cluster of its own, for a kfake has the same listeners everywhere.
func (s *server) loginAddr() string { return s.later(2) }
func (s *server) tlsAddr() string   { return s.later(3) }

// later is the address n ports behind the first.
func (s *server) later(n int) string {
	host, port, _ := net.SplitHostPort(s.addr)
	first, _ := strconv.Atoi(port)
	return net.JoinHostPort(host, strconv.Itoa(first+n))
}

// kind names the broker in a report, since figures beside kfake say little about Kafka.
func (s *server) kind() string {
	if s.real {
		return "Apache Kafka"
	}
	return "kfake"
}

// start returns when the broker serves.
// After kill it begins with what it held, on the same port.
func (s *server) start(ctx context.Context) error {
	_, port, _ := net.SplitHostPort(s.addr)
	if s.real {
		return s.script(ctx, "start", s.dir, port)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// This program itself, see serveFake.
	s.cmd = exec.Command(self, "broker", port, s.dir)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// It ends with the trial, however that ends.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	// Taking connections is all that is waited for; clients try again by themselves after
	// that.
	return eventually(ctx, 30*time.Second, "the broker to serve "+s.addr, func() (bool, error) {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil, nil
	})
}

// script runs kafka.sh, see there, and returns when that does.
func (s *server) script(ctx context.Context, args ...string) error {
	root, err := module("weir/cmd/internal/app/e2e")
	if err != nil {
		return err
	}
	// Files and not pipes: the broker outlives the script and would hold a pipe open.
	said, err := os.OpenFile(s.dir+".script.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "kafka.sh"), args...)
	if s.auth {
		// It counts only at the first start of a folder.
		cmd.Env = append(os.Environ(), "KAFKA_AUTH=yes")
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("kafka.sh %s: %w\n%s", args[0], err, tail(string(text), 1000))
	}
	return nil
}

// kill ends the broker as a crash would.
// What it had not synced is the page cache's and stays, as after the end of a process; the
// machine itself does not crash here.
func (s *server) kill() error {
	if !s.real {
		err := s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		return err
	}
	// kafka.sh writes it at each start.
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// stop ends the broker for good.
// It may be called when the broker does not run.
func (s *server) stop() error {
	if s.real {
		return s.script(context.Background(), "stop", s.dir)
	}
	if s.cmd == nil {
		return nil
	}
	return s.kill()
}

// serveFake is the process of a kfake.
// It is a process of its own so that it can be killed like a broker. Its data lie in DIR.
func serveFake(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: trial broker PORT DIR")
	}
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	// Sessions may be as short as the trials want them.
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(args[1]), kfake.GroupMinSessionTimeout(time.Second), kfake.ListenFn(listenLingering),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn)))
	if err != nil {
		return err
	}
	defer c.Close()
	// The user is the one that kafka.sh makes, so the mistakes of lines are the same for
	// both.
	login, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port+2), kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "weir-secret"),
		kfake.Superuser("SCRAM-SHA-256", "weir", "weir-secret"), kfake.Superuser("SCRAM-SHA-512", "weir", "weir-secret"))
	if err != nil {
		return err
	}
	defer login.Close()
	select {} // until it is killed
}

// client returns a client of the broker that is not the one that weir uses: a second
// opinion about what is on the wire.
// A fault of weir's client that hid itself from weir would show here. It tries again for
// longer than any outage of a trial lasts.
func (s *server) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.addr), kgo.RetryTimeout(15 * time.Minute), kgo.MetadataMinAge(100 * time.Millisecond)}, options...)...)
}

// module is the folder of a Go module that the working folder knows.
// The trial is a module of its own beside that of weir, and is run from within it.
func module(path string) (string, error) {
	var said bytes.Buffer
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w; run this in the module of the trial\n%s", path, err, said.Bytes())
	}
	return string(bytes.TrimSpace(out)), nil
}

// eventually waits for something that becomes true by itself.
// An error of is ends the waiting, and so does ctx; what is waited for stands in the error.
func eventually(ctx context.Context, within time.Duration, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := is()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s", within, what)
		case <-again.C:
		}
	}
}
