package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/schemas"
)

// TestOpenAPIHasEveryRoute holds that the description has the routes of the server and no others.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Roles []string `json:"x-roles"`
		}
	}
	if err := json.Unmarshal(schemas.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	described, routes := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, r := range served(t).routes() {
		path := strings.TrimSuffix(r.path, "{$}")
		methods := []string{r.method}
		if r.method == "" { // any
			methods = []string{"GET", "POST"}
		}
		for _, method := range methods {
			routes[method+" "+path] = true
			// Roles are named in the order of their bits.
			want := ""
			if r.need != public {
				want = needs[r.need].String()
			}
			if got := strings.Join(doc.Paths[path][strings.ToLower(method)].Roles, " or "); got != want {
				t.Errorf("%s %s: the description names the roles %q, want %q", method, path, got, want)
			}
		}
	}
	if !maps.Equal(described, routes) {
		t.Errorf("described alone: %v\nserved alone: %v\nedit cmd/internal/tools/openapi/openapi.yaml, then run go run . there", without(described, routes), without(routes, described))
	}
}

func without(a, b map[string]bool) (out []string) {
	for k := range a {
		if !b[k] {
			out = append(out, k)
		}
	}
	return slices.Sorted(slices.Values(out))
}
