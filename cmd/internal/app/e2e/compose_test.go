package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../../../.."

// TestCompose holds what can be held of docker-compose.yml without Docker: it is valid,
// what it mounts exists, it publishes on this machine alone, each service says whether
// it is healthy, images have a version, and weir is called as weir can be called.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithEnv([]string{"GRAFANA_PASSWORD=x", "WEIR_INTAKE_TOKEN=y"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kafka", "topics", "weir", "prometheus", "grafana"} {
		if _, ok := project.Services[want]; !ok {
			t.Errorf("there is no service %s", want)
		}
	}
	scraped, err := os.ReadFile(filepath.Join(root, "sink/prom/prometheus/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	args := project.Services["weir"].Command
	i := slices.Index(args, "--metrics")
	_, port, _ := strings.Cut(args[i+1], ":")
	if i < 0 || !strings.Contains(string(scraped), "weir:"+port+`"`) {
		t.Errorf("Prometheus does not scrape weir:%s", port)
	}
	commands := readCommands(t)
	for name, s := range project.Services {
		for _, p := range s.Ports {
			if addr, err := netip.ParseAddr(p.HostIP); err != nil || !addr.IsLoopback() {
				t.Errorf("%s: port %s is published on %q, not on 127.0.0.1", name, p.Published, p.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: mounts what is not there: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s: may write to %s", name, v.Source)
			}
		}
		if !regexp.MustCompile(`:v?\d+\.\d+\.\d+$|^weir:dev$`).MatchString(s.Image) {
			t.Errorf("%s: image %s has no version", name, s.Image)
		}
		once := slices.ContainsFunc(dependents(project, name), func(d types.ServiceDependency) bool {
			return d.Condition == types.ServiceConditionCompletedSuccessfully
		})
		if (s.HealthCheck == nil || len(s.HealthCheck.Test) == 0) && !once {
			t.Errorf("%s: nobody asks whether it is healthy", name)
		}
		if s.Build == nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		commands.check(t, name, s.Command)
		if s.HealthCheck != nil {
			commands.check(t, name+" (health check)", s.HealthCheck.Test[2:]) // CMD /weir
		}
	}
}

func dependents(project *types.Project, name string) (list []types.ServiceDependency) {
	for _, s := range project.Services {
		if d, ok := s.DependsOn[name]; ok {
			list = append(list, d)
		}
	}
	return list
}

// commands are those of the reference, each with its flags.
type commands map[string][]string

func readCommands(t *testing.T) commands {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "cmd/weir/REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	list, command := commands{}, ""
	flag := regexp.MustCompile("^\\| `(--[a-z-]+)")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "## weir "); ok {
			command = name
			list[command] = nil
		} else if m := flag.FindStringSubmatch(line); m != nil {
			list[command] = append(list[command], m[1])
		}
	}
	return list
}

func (c commands) check(t *testing.T, who string, args []string) {
	t.Helper()
	n := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if n < 0 {
		n = len(args)
	}
	command := strings.Join(args[:n], " ")
	flags, ok := c[command]
	if !ok {
		t.Errorf("%s: there is no command %q", who, command)
		return
	}
	for _, a := range args[n:] {
		name, _, _ := strings.Cut(a, "=")
		if strings.HasPrefix(a, "--") && !slices.Contains(flags, name) {
			t.Errorf("%s: weir %s has no flag %s", who, command, name)
		}
	}
}

// TestDockerfile holds that the image is built by the Go version of go.mod and runs as a
// user without rights.
func TestDockerfile(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read("go.mod"))[1]
	file := read("cmd/weir/Dockerfile")
	for _, want := range []string{"FROM golang:" + version + "-", "CGO_ENABLED=0", "\nFROM scratch\n", "\nUSER 65532:65532\n"} {
		if !strings.Contains(file, want) {
			t.Errorf("the Dockerfile does not say %q", want)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (?:--from=build )?(?:--chown=\S+ )?(.*) \S+$`).FindAllStringSubmatch(file, -1) {
		for name := range strings.FieldsSeq(m[1]) {
			if strings.HasPrefix(name, "/") {
				continue // from the build
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("the Dockerfile copies what is not there: %v", err)
			}
		}
	}
}
