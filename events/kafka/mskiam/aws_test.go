package mskiam

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/sasl"
)

// TestAWS makes the message of a login by keys that open nothing, as a broker of MSK reads it.
func TestAWS(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	const broker = "b-1.name.x1.c2.kafka.eu-west-1.amazonaws.com"
	m, err := New(t.Context(), "", []string{broker + ":9098"})
	if err != nil {
		t.Fatal(err)
	}
	sess, first, err := m.Start(sasl.WithMetadata(context.Background(), &sasl.Metadata{Host: broker, Port: 9098}))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]string
	if err := json.Unmarshal(first, &fields); err != nil {
		t.Fatal(err)
	}
	if m.Name() != "AWS_MSK_IAM" || fields["host"] != broker || fields["action"] != "kafka-cluster:Connect" || fields["version"] != "2020_10_22" || fields["x-amz-security-token"] != "session" ||
		!strings.HasPrefix(fields["x-amz-credential"], "AKIDEXAMPLE/") || !strings.HasSuffix(fields["x-amz-credential"], "/eu-west-1/kafka-cluster/aws4_request") || len(fields["x-amz-signature"]) != 64 {
		t.Errorf("%s: %v", m.Name(), fields)
	}
	if done, _, err := sess.Next(t.Context(), []byte("{}")); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if _, err := New(t.Context(), "", []string{"127.0.0.1:9098"}); err == nil {
		t.Error("there is a region of nothing")
	}
	for name, want := range map[string]string{"boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098": "us-east-1", "b-1.x.kafka.cn-north-1.amazonaws.com.cn": "cn-north-1", "kafka.example.com": "", "kafka": ""} {
		if got := regionOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
