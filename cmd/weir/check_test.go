package main

import "testing"

// TestWithMember puts a member into an object, be it empty or not.
func TestWithMember(t *testing.T) {
	for object, want := range map[string]string{`{}`: `{"id":"x"}`, ` { }`: ` {"id":"x" }`, `{"a":1}`: `{"id":"x","a":1}`, `[]`: `[]`} {
		if got := string(withMember([]byte(object), "id", "x")); got != want {
			t.Errorf("%s becomes %s, want %s", object, got, want)
		}
	}
}
