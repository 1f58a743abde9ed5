package events

import "testing"

func TestNamedEffect(t *testing.T) {
	for want, names := range map[Effect][]string{
		EffectRead:    {"find", "find_file", "search_dir", "Grep", "mcp__docs__searchPages", "ls", "find.", "tools/list_files"},
		EffectChanged: {"create_event", "mcp__calendar__createEvent", "Write", "edit", "save_memory", "files.upload"},
		EffectUnset:   {"", "bash", "finder", "settle", "add_and_list_items", "update_status", "get_weather", "python"},
	} {
		for _, name := range names {
			if got := NamedEffect(name); got != want {
				t.Errorf("%q: %v, want %v", name, got, want)
			}
		}
	}
}
