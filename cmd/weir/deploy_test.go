package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/app"
	"weir/cmd/internal/operate"
)

// runsWith holds arguments of weir run in an example against the flags that there are.
func runsWith(t *testing.T, where string, args []string) *operate.RunFlags {
	t.Helper()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	r := operate.NewRunFlags(fs)
	if len(args) == 0 || args[0] != "run" {
		t.Fatalf("%s: %q does not run weir", where, args)
	}
	if err := fs.Parse(args[1:]); err != nil || fs.NArg() > 0 {
		t.Errorf("%s: %v, left over %q", where, err, fs.Args())
	}
	return r
}

func TestSystemdUnit(t *testing.T) {
	b, err := os.ReadFile("deploy/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	section := ""
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok || section == "" || settings[section+"."+name] != "":
			t.Errorf("line %d: %q is no setting, or a second one", i+1, line)
		default:
			settings[section+"."+name] = value
		}
	}
	start := strings.Fields(settings["Service.ExecStart"])
	if len(start) == 0 || !strings.HasSuffix(start[0], "/weir") {
		t.Fatalf("starts %q", start)
	}
	r := runsWith(t, "weir.service", start[1:])
	if r.O.StateDir != "/var/lib/"+settings["Service.StateDirectory"] {
		t.Errorf("the state is in %s, systemd makes /var/lib/%s", r.O.StateDir, settings["Service.StateDirectory"])
	}
	if s, err := strconv.Atoi(settings["Service.TimeoutStopSec"]); err != nil || float64(s) <= operate.Graceful.Seconds() {
		t.Errorf("systemd waits %s s, weir takes up to %v", settings["Service.TimeoutStopSec"], operate.Graceful)
	}
}

// object is what the test wants to know of one of Kubernetes.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string
	Spec       struct {
		ServiceName string `yaml:"serviceName"`
		Ports       []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args  []string
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
					Liveness  probe `yaml:"livenessProbe"`
					Readiness probe `yaml:"readinessProbe"`
					Mounts    []struct {
						Name string
						Path string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct{ Name string }
			}
		}
		Claims []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func TestKubernetesManifests(t *testing.T) {
	b, err := os.ReadFile("deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]object{}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || o.APIVersion == "" || o.Metadata.Name != "weir" || objects[o.Kind].Kind != "" {
			t.Fatalf("%s %s %s: %v", o.APIVersion, o.Kind, o.Metadata.Name, err)
		}
		objects[o.Kind] = o
	}
	set, service := objects["StatefulSet"].Spec, objects["Service"].Spec
	if set.ServiceName != objects["Service"].Metadata.Name || len(set.Template.Spec.Containers) != 1 {
		t.Fatalf("%+v", set)
	}
	if grace := set.Template.Spec.Grace; float64(grace) <= operate.Graceful.Seconds() {
		t.Errorf("killed after %d s, weir takes up to %v", grace, operate.Graceful)
	}
	c := set.Template.Spec.Containers[0]
	r := runsWith(t, "kubernetes.yaml", c.Args)
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.Port
	}
	for name, address := range map[string]string{"http": r.O.Listen, "metrics": r.O.Metrics} {
		_, port, err := net.SplitHostPort(address)
		if err != nil || port != strconv.Itoa(ports[name]) {
			t.Errorf("weir listens on %s, the port %s is %d (%v)", address, name, ports[name], err)
		}
	}
	for _, p := range service.Ports {
		if ports[p.TargetPort] != p.Port {
			t.Errorf("the service has port %s at %d", p.Name, p.Port)
		}
	}
	if c.Liveness.HTTPGet.Path != "/healthz" || c.Readiness.HTTPGet.Path != "/readyz" || ports[c.Liveness.HTTPGet.Port] == 0 || ports[c.Readiness.HTTPGet.Port] == 0 {
		t.Errorf("probes %+v %+v", c.Liveness, c.Readiness)
	}
	var volumes, mounts []string
	for _, v := range set.Template.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, v := range set.Claims {
		volumes = append(volumes, v.Metadata.Name)
	}
	var paths []string
	for _, m := range c.Mounts {
		mounts = append(mounts, m.Name)
		paths = append(paths, m.Path)
	}
	slices.Sort(volumes)
	slices.Sort(mounts)
	if !slices.Equal(volumes, mounts) {
		t.Errorf("volumes %q, mounted %q", volumes, mounts)
	}
	for _, file := range []string{r.O.StateDir, *r.LimitFlags.File, r.O.IntakeTokenFile, r.O.AdminTokenFile} {
		if !slices.ContainsFunc(paths, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") }) {
			t.Errorf("%s is on no volume", file)
		}
	}
	if _, err := limitfile.Parse("limits.yaml", []byte(objects["ConfigMap"].Data["limits.yaml"])); err != nil {
		t.Error(err)
	}
	if app.DefaultMetrics != "127.0.0.1:"+strconv.Itoa(ports["metrics"]) {
		t.Errorf("metrics are at %d, by default at %s", ports["metrics"], app.DefaultMetrics)
	}
}
