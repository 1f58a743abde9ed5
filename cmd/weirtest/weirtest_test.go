package weirtest

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestZone looks at each minute of days at the end of a month, a leap year's February and a year.
func TestZone(t *testing.T) {
	t.Parallel()
	for _, day := range []time.Time{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)} {
		for minute := range 24 * 60 {
			now := day.Add(time.Duration(minute) * time.Minute)
			zone, err := time.LoadLocation(Zone(now))
			if err != nil {
				t.Fatal(err)
			}
			if a, b := now.In(zone), now.Add(6*time.Hour-time.Second).In(zone); a.Day() != b.Day() {
				t.Fatalf("at %s the day of %s ends within six hours", now, zone)
			}
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := Run(t, "--in-memory")
	w.Ready()
	if code := w.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.Log())
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	if code, out, errs := Command(t, Options{}, "limits", "show"); code != 0 || !strings.Contains(out, "profile: balanced") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := Command(t, Options{}, "nosuch"); code == 0 || !strings.Contains(errs, "nosuch") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestPorts takes more ports than chance would leave apart, and listens on each.
func TestPorts(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		first, err := Ports(2)
		if err != nil {
			t.Fatal(err)
		}
		for port := first; port < first+2; port++ {
			if seen[port] {
				t.Errorf("port %d is given twice", port)
			}
			seen[port] = true
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				t.Error(err)
				continue
			}
			_ = l.Close()
		}
	}
}
