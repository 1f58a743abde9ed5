package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// strictly decodes objects as Kubernetes does when it is told to be strict: a field that it
// does not know, or that is there twice, is an error.
func strictly(t *testing.T, text []byte) (objects []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	d := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for part := make([]byte, len(text)); ; {
		n, err := d.Read(part)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := decoder.Decode(part[:n], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// find returns the only object of a type.
func find[T runtime.Object](t *testing.T, objects []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, o := range objects {
		if as, ok := o.(T); ok {
			found, n = as, n+1
		}
	}
	if n != 1 {
		t.Fatalf("there are %d of %T, want 1", n, found)
	}
	return found
}

// TestKubernetes holds that Kubernetes can read the manifests, that what belongs together
// finds each other, and that the commands at their head make what they want.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	consistent(t, strictly(t, text), runHead(t, string(text)))
}

// consistent holds of the objects of one installation that names are valid, that selectors find the pods, and that
// the files that weir reads are mounted. made is the secret with the tokens; nil when it could not be made.
func consistent(t *testing.T, objects []runtime.Object, made *corev1.Secret) {
	t.Helper()
	for _, o := range objects {
		named, ok := o.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no name", o)
		}
		if bad := validation.NameIsDNS1035Label(named.GetName(), false); len(bad) > 0 {
			t.Errorf("%T %s: %q", o, named.GetName(), bad)
		}
	}
	set, service := find[*appsv1.StatefulSet](t, objects), find[*corev1.Service](t, objects)
	pods := labels.Set(set.Spec.Template.Labels)
	selectors := map[string]*metav1.LabelSelector{"StatefulSet": set.Spec.Selector, "Service": {MatchLabels: service.Spec.Selector}}
	if *set.Spec.Replicas > 1 {
		selectors["PodDisruptionBudget"] = find[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector
	}
	for what, selector := range selectors {
		if s, err := metav1.LabelSelectorAsSelector(selector); err != nil || s.Empty() || !s.Matches(pods) {
			t.Errorf("the %s selects %v, the pods are %v (%v)", what, s, pods, err)
		}
	}
	if set.Spec.ServiceName != service.Name {
		t.Errorf("the StatefulSet names service %s, the service is %s", set.Spec.ServiceName, service.Name)
	}
	spec := set.Spec.Template.Spec
	if spec.SecurityContext.FSGroup == nil || *spec.SecurityContext.FSGroup != *spec.SecurityContext.RunAsUser {
		t.Error("the volume of the state does not belong to the user who writes it")
	}
	config := find[*corev1.ConfigMap](t, objects)
	read := map[string][]string{} // keys of what is mounted, by volume
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, arg := range spec.Containers[0].Args {
			if _, path, ok := strings.Cut(arg, "="+m.MountPath+"/"); ok {
				read[m.Name] = append(read[m.Name], path)
			}
		}
	}
	for _, v := range spec.Volumes {
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name == config.Name:
			for _, key := range read[v.Name] {
				if _, ok := config.Data[key]; !ok {
					t.Errorf("the ConfigMap has no %s", key)
				}
			}
		case v.Secret != nil && made == nil:
		case v.Secret != nil && v.Secret.SecretName == made.Name:
			for _, key := range read[v.Name] {
				if len(made.Data[key]) < 32 {
					t.Errorf("the secret has no %s", key)
				}
			}
		default:
			t.Errorf("volume %s: nothing makes it", v.Name)
		}
	}
	if len(read["tokens"]) != 2 || len(read["limits"]) != 1 {
		t.Errorf("weir reads %v", read)
	}
	readCommands(t).check(t, "the StatefulSet", spec.Containers[0].Args)
}

// head is the commands in the comment that a file begins with.
func head(text string) (commands []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if command, ok := strings.CutPrefix(line, "#   "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// runHead runs the commands at the head of the manifests in an empty folder, up to what
// needs a cluster, and returns the secret that they make; nil when there is no kubectl.
func runHead(t *testing.T, text string) (secret *corev1.Secret) {
	t.Helper()
	dir, applied := t.TempDir(), false
	for _, command := range head(text) {
		words := strings.Fields(command)
		switch {
		case words[0] == "weir":
			readCommands(t).check(t, "kubernetes.yaml", words[1:])
			continue
		case slices.Equal(words[:min(2, len(words))], []string{"kubectl", "apply"}):
			if _, err := os.Stat(filepath.Join("..", "deploy", words[len(words)-1])); err != nil {
				t.Errorf("%s: %v", command, err)
			}
			applied = true // by a server, and there is none
			continue
		case words[0] == "kubectl":
			if _, err := exec.LookPath("kubectl"); err != nil {
				t.Logf("*** NOT RUN, because there is no kubectl: %s ***", command)
				continue
			}
			command += " --dry-run=client --output=yaml"
		}
		run := exec.CommandContext(t.Context(), "sh", "-ec", command)
		run.Dir, run.Env = dir, append(os.Environ(), "KUBECONFIG=/dev/null")
		var said strings.Builder
		run.Stderr = &said
		out, err := run.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said.String())
		}
		if words[0] == "kubectl" {
			secret = find[*corev1.Secret](t, strictly(t, out))
		}
	}
	if !applied {
		t.Error("no command applies the manifests")
	}
	return secret
}
