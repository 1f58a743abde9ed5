package deploy

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// TestHelm renders the chart as helm does, embedded and on Kafka, and holds what TestKubernetes holds of the manifests.
func TestHelm(t *testing.T) {
	for _, c := range []struct {
		name     string
		values   string
		replicas int32
	}{
		{"embedded", ``, 1},
		{"on Kafka", `
brokers: kafka:9092
replicas: 3
tokensSecret: tokens-of-a-team
image: {repository: registry/weir, tag: v1.2.3}
limits: |
  profile: strict
  rules:
    max_calls: {max: 40}
extraArgs: ["--webhook=https://hooks/weir", "--retention=24h"]
extraEnv: [{name: WEIR_SASL_PASSWORD, valueFrom: {secretKeyRef: {name: kafka, key: password}}}]
nodeSelector: {disk: ssd}
tolerations: [{key: agents, operator: Exists}]
storage: {size: 20Gi, className: fast}
`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := render(t, c.values)
			objects := strictly(t, []byte(text))
			secret := &corev1.Secret{Data: map[string][]byte{"intake-token": make([]byte, 44), "admin-token": make([]byte, 44)}}
			set := find[*appsv1.StatefulSet](t, objects)
			for _, v := range set.Spec.Template.Spec.Volumes {
				if v.Secret != nil {
					secret.Name = v.Secret.SecretName
				}
			}
			consistent(t, objects, secret)
			if *set.Spec.Replicas != c.replicas {
				t.Errorf("%d replicas, want %d", *set.Spec.Replicas, c.replicas)
			}
			args := set.Spec.Template.Spec.Containers[0].Args
			if onKafka := slices.Contains(args, "--brokers=kafka:9092"); onKafka != (c.replicas > 1) {
				t.Errorf("weir is started with %q", args)
			}
			if c.replicas > 1 && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--advertise=") }) {
				t.Errorf("members cannot reach each other: %q", args)
			}
		})
	}
}

// render returns all manifests of the chart as one text.
func render(t *testing.T, values string) string {
	t.Helper()
	chart, err := loader.LoadDir("helm")
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	read, err := loader.LoadValues(strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, read, common.ReleaseOptions{Name: "agents", Namespace: "default", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	e := engine.Engine{Strict: true}
	files, err := e.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n---\n")
}
