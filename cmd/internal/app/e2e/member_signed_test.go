package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"weir/sink/sign"
)

// TestMemberSignsVerdicts holds that a member with keys signs the records of the topic, which a guard
// with keys obeys alone.
func TestMemberSignsVerdicts(t *testing.T) {
	t.Parallel()
	const line = "k1 0123456789abcdef0123456789abcdef\n"
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := sign.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, startBroker(t), 1)
	o := g.options(t.TempDir())
	o.OrderKeysFile = file
	m := g.start(o)
	g.produce(loops("f", 5, 14)...)
	g.folded(m)
	n := 0
	for _, r := range g.b.records(t, g.topics.Verdicts, 0) {
		if headers := headersOf(r); headers["weir-trigger"] != "" { // no mark of an owner
			n++
			if err := keys.Verify(r.Value, headers[sign.RecordHeader]); err != nil {
				t.Errorf("record %d: %v", r.Offset, err)
			}
		}
	}
	if n == 0 {
		t.Error("there are no verdicts")
	}
}
