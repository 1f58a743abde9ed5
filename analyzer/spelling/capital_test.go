package spelling

import "testing"

func TestCapital(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "stop": "Stop", "a b": "A b", "Stop": "Stop", "7 calls": "7 calls", "über 7": "Über 7", "\"x\"": "\"x\"", "\xffx": "\xffx"} {
		if got := Capital(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
