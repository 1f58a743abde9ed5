package main

import (
	"os"
	"strings"
	"testing"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
	"weir/schemas"
)

// TestConfigSchema holds the published schema to the flags of weir run.
func TestConfigSchema(t *testing.T) {
	want := operate.Settings().Schema()
	if *update {
		if err := os.WriteFile("../../schemas/config.v1.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := schemas.Config(); string(got) != string(want) {
		t.Errorf("schemas/config.v1.json: %s; run the tests with -update", firstDifference(string(got), string(want)))
	}
	if code, out, errs := weir(t, "", "config", "schema"); code != 0 || errs != "" || out != string(want) {
		t.Errorf("weir config schema: exit code %d\n%s%s", code, out, errs)
	}
}

// TestConfigPrint takes settings from all places, with secrets in each place that
// secrets may stand in.
func TestConfigPrint(t *testing.T) {
	var out, errs strings.Builder
	environment := map[string]string{"WEIR_CONFIG": "testdata/weir.yaml", "WEIR_GROUP": "prod", "WEIR_KAFKA_PASSWORD": "open sesame", "WEIR_LISTEN": "127.0.0.1:9000"}
	env := cli.Env{Out: &out, Err: &errs, Getenv: func(name string) string { return environment[name] }}
	code := program().Main(t.Context(), env, strings.Fields("config print --listen 127.0.0.1:9001"))
	if code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	for _, want := range []string{
		"brokers kafka-1:9092,kafka-2 testdata/weir.yaml:4", "group prod WEIR_GROUP", "kafka-password-file (not shown) WEIR_KAFKA_PASSWORD", "listen 127.0.0.1:9001 --listen",
		"retention 72h0m0s testdata/weir.yaml:5", "events-topic agent-events default", "in-memory false default",
		"webhook https://xxxxx@hooks.example/weir?xxxxx testdata/weir.yaml:6",
	} {
		found := false
		for line := range strings.Lines(out.String()) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "sesame") {
		t.Errorf("a secret is printed:\n%s", out.String())
	}
}
