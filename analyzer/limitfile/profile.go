package limitfile

import (
	"embed"
	"fmt"
	"strings"

	"weir/analyzer"
	"weir/analyzer/strictyaml"
)

//go:embed profiles/*.yaml
var files embed.FS

// Profiles lists the names of the profiles in the binary, in the order of the alphabet.
func Profiles() []string {
	entries, err := files.ReadDir("profiles")
	if err != nil {
		panic("limitfile: " + err.Error()) // the folder is in the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Default returns the limits of a program that was given none: the balanced profile.
func Default() analyzer.Limits {
	l := analyzer.Balanced()
	l.Version = Version(&l)
	return l
}

// Profile returns the limits of a profile, with their version. Its error names the profiles
// that there are.
func Profile(name string) (analyzer.Limits, error) {
	l, err := unversioned(name)
	if err != nil {
		return analyzer.Limits{}, err
	}
	l.Version = Version(&l)
	return l, nil
}

// ProfileFile returns the profile as it is written, with the comments that say
// whose numbers these are and what cannot be reproduced. The profiles balanced and none have a
// file as well, which says what they are and is not read as limits.
func ProfileFile(name string) ([]byte, error) {
	// A name comes from files and requests of others and must not lead out of the folder.
	if name == "" || strings.ContainsAny(name, `/\.`) {
		return nil, unknownProfile(name)
	}
	b, err := files.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return nil, unknownProfile(name)
	}
	return b, nil
}

// unknownProfile is the error for a name that is none.
func unknownProfile(name string) error {
	return fmt.Errorf("profile %s is not known: the profiles are %s", strictyaml.Quote(name), strings.Join(Profiles(), ", "))
}

// unversioned returns the profile without its version, as what a file changes.
// The two that other profiles are made of are not read from files. A file that changes a
// profile gets a version of its own.
func unversioned(name string) (analyzer.Limits, error) {
	switch name {
	case "balanced":
		return analyzer.Balanced(), nil
	case "none":
		return none(), nil
	}
	data, err := ProfileFile(name)
	if err != nil {
		return analyzer.Limits{}, err
	}
	// Profiles other than the two change balanced or none, so Parse comes back here once.
	l, err := Parse(name+".yaml", data)
	if err != nil {
		return analyzer.Limits{}, fmt.Errorf("profile %s: %w", name, err)
	}
	// The name is that under which it was asked for, and not of what it changes.
	l.Profile, l.Version = name, ""
	return l, nil
}

// none returns limits that never warn and never stop. All else is as in the balanced limits:
// what is on then has the usual times and steps. It is the base of limits in a log, so its
// figures must not change (decision 47).
func none() analyzer.Limits {
	l := analyzer.Balanced()
	l.Profile = "none"
	for _, r := range analyzer.Rows() {
		*r.Setting(&l) = r.Off()
	}
	return l
}
