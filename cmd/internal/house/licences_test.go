package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicences holds that every module that is built into weir may be passed on with it:
// under a licence that asks for no more than that its text is kept. Each is known by words
// that no other has.
func TestLicences(t *testing.T) {
	known := []struct{ name, words string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
		{"BSD", "Redistribution and use in source and binary forms, with or without modification, are permitted"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"},
	}
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/weir")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[path] = dir
		}
	}
	if len(modules) < 10 {
		t.Fatalf("only %d modules are found", len(modules))
	}
	for path, dir := range modules {
		var files []string
		for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "COPYING*"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
		name := ""
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(string(b)), " ")
			for _, l := range known {
				if strings.Contains(text, l.words) {
					name = l.name
				}
			}
			if strings.Contains(text, "GNU GENERAL PUBLIC LICENSE") || strings.Contains(text, "GNU AFFERO") || strings.Contains(text, "GNU LESSER") {
				t.Errorf("%s has a licence that reaches what it is built into: %s", path, filepath.Base(file))
			}
		}
		if name == "" {
			t.Errorf("%s: none of the licences that are known in %q; read it, and add it here if weir may be passed on with it", path, files)
		}
	}
}
