package deploy

import (
	"cmp"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../../.."

// readProject loads docker-compose.yml as Compose does: schema, anchors, variables, and
// the names of services, volumes and secrets.
func readProject(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestCompose holds what can be held of docker-compose.yml without Docker: it is valid,
// what it mounts exists, it publishes on this machine alone, each service says whether
// it is healthy, images have a version, and weir is called as weir can be called.
func TestCompose(t *testing.T) {
	project := readProject(t)
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

// TestSecrets holds that every secret can get into its container and be read there, and
// that make brings it. Compose itself finds out only when a container starts.
func TestSecrets(t *testing.T) {
	project := readProject(t)
	for name, s := range project.Services {
		mounted := map[string]bool{}
		for _, m := range s.Secrets {
			from := project.Secrets[m.Source]
			mounted[cmp.Or(m.Target, "/run/secrets/"+m.Source)] = true
			switch {
			case from.File != "":
			case s.ReadOnly:
				t.Errorf("%s is read_only, and its secret %s is not from a file: Compose cannot copy it in", name, m.Source)
			}
			if m.UID != "" || m.GID != "" || m.Mode != nil {
				t.Errorf("%s: the owner and the mode of %s are those of its file, whatever is written here", name, m.Source)
			}
		}
		for _, path := range secretPaths(s) {
			if !mounted[path] {
				t.Errorf("%s reads %s, and no secret is mounted there", name, path)
			}
		}
	}
	for _, flag := range []string{"--intake-token-file", "--admin-token-file"} {
		if !slices.Contains(project.Services["weir"].Command, flag) {
			t.Errorf("weir runs without %s: some of its commands answer 403", flag)
		}
	}
	for name, from := range project.Secrets {
		if from.File != "" {
			made(t, name, from.File)
		}
	}
}

// secretPaths are the paths below /run/secrets that a service is told of.
func secretPaths(s types.ServiceConfig) (paths []string) {
	said := slices.Clone(s.Command)
	for _, value := range s.Environment {
		if value != nil {
			said = append(said, *value)
		}
	}
	for _, word := range said {
		if strings.HasPrefix(word, "/run/secrets/") {
			paths = append(paths, word)
		}
	}
	return paths
}

// made lets make write the file of a secret into an empty folder. Whoever is let into its
// folder may read it, since the users of containers are others than the one who made it,
// and nobody else is let in.
func made(t *testing.T, name, file string) {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(top, file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", dir, "-f", filepath.Join(top, "Makefile"), rel).CombinedOutput()
	if err != nil {
		t.Errorf("secret %s: make %s: %v\n%s", name, rel, err, out)
		return
	}
	f, err := os.Stat(filepath.Join(dir, rel))
	if err != nil {
		t.Fatal(err)
	}
	if f.Mode().Perm()&0o004 == 0 || f.Size() < 32 {
		t.Errorf("secret %s: users of containers cannot read %s, of mode %v and %d bytes", name, rel, f.Mode(), f.Size())
	}
	folder, err := os.Stat(filepath.Dir(filepath.Join(dir, rel)))
	if err != nil {
		t.Fatal(err)
	}
	if folder.Mode().Perm() != 0o700 {
		t.Errorf("secret %s: the folder of %s has mode %v and lets others in", name, rel, folder.Mode())
	}
}
