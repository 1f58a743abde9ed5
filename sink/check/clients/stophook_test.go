package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// patience is how often the hook of others blocks before it gives in, so that the test ends.
const patience = 20

// most is how often an agent may want to end: the same answer is given six times over after the
// first. Gemini CLI tells all its answers as one, so that each is another: they are twelve calls
// without work. Qwen Code tells each end as if a hook had brought it about, so nothing is known.
var most = map[string]int{"claude-code": 7, "codex": 7, "gemini-cli": 13, "qwen-code": patience + 1}

// stopMoments are the agents whose hooks can keep them from ending, and where.
var stopMoments = map[string]string{"claude-code": "Stop", "codex": "Stop", "qwen-code": "Stop", "gemini-cli": "AfterAgent"}

// TestStopHookThatBlocks gives agents a hook of somebody else, beside weir's, that does not let
// them end: alone it goes on until the agent or the hook has enough, and weir ends it before.
func TestStopHookThatBlocks(t *testing.T) {
	dir, weir := begin(t)
	url := startWeir(t, weir)
	for _, c := range all {
		moment := stopMoments[c.name]
		if moment == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.find(t, dir)
			files := map[string]string{"never.sh": fmt.Sprintf(`(cat; echo) | tr -d '\n' >> {home}/stops; echo >> {home}/stops
[ $(wc -l < {home}/stops) -gt %d ] || echo '{"decision":"block","reason":"Not done yet: go on."}'
`, patience)}
			for path, text := range c.files {
				files[path] = strings.Replace(text, `"hooks": {"`, `"hooks": {"`+moment+`": [{"hooks": [{"type": "command", "command": "sh {home}/never.sh"}]}], "`, 1)
			}
			c.files = files
			ends := func(url string) int {
				home := t.TempDir()
				out, err := (&run{T: t, client: c, weir: weir}).live(home, url, false, nil)
				if err != nil {
					t.Logf("the client ends with %v\n%s", err, tail(out))
				}
				b, _ := os.ReadFile(filepath.Join(home, "stops"))
				return strings.Count(string(b), "\n")
			}
			alone, watched := ends("http://127.0.0.1:1"), ends(url)
			t.Logf("%s %s wants to end %d times without weir, and %d times with it", c.name, c.installed(t), alone, watched)
			if alone < 2 {
				t.Skipf("%s does not go on when a hook blocks its end", c.name)
			}
			if most := most[c.name]; watched > min(alone, most) {
				t.Errorf("%d ends with weir, want %d at most", watched, most)
			}
		})
	}
}
