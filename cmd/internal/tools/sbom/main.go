// Sbom writes the bill of materials of a Go program, as CycloneDX 1.5 in JSON, from what
// the program itself says that it was built from.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

// bill is a document of CycloneDX, of which it has what readers need: what the program is, and
// what it was built from. Names and order are those of the standard.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

// metadata has one thing of many that the standard knows: what the bill is of.
type metadata struct {
	Component component `json:"component"`
}

// component is the program, the standard library, or a module. URL is its package URL, by
// which advisories are looked up.
type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	URL        string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

// property is what CycloneDX has no member for: settings of the build, and sums of modules.
type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// main reads the program itself, so the bill is of what is shipped and not of what a go.mod
// says.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(billOf(info))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// billOf makes a bill of what Go has put into a program. A module that was replaced stands
// there as what it was replaced by. There is no time and no random number in it: the same
// program has the same bill.
func billOf(info *debug.BuildInfo) bill {
	main := component{Type: "application", Name: info.Path}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{main}}
	// The standard library is no module of go.mod, and has advisories like any.
	b.Components = append(b.Components, component{Type: "library", Name: "std", Version: info.GoVersion, URL: "pkg:golang/std@" + info.GoVersion})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, component{Type: "library", Name: m.Path, Version: m.Version,
			// The sum is that of go.sum. It distinguishes a module from another one of the
			// same version.
			URL: "pkg:golang/" + m.Path + "@" + m.Version, Properties: []property{{"go:sum", m.Sum}}})
	}
	return b
}
