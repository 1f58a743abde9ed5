package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Secret is the value of a flag that names the file with a secret. The secret itself
// may come by the environment instead: that of the flag --NAME-file as WEIR_NAME. It
// never stands on a command line or in the configuration file, and is never printed.
type Secret struct {
	// One of the two is set at most. value is never copied into a setting.
	path  string
	value []byte
}

// fileSuffix ends the names of flags that name files with secrets.
const fileSuffix = "-file"

// NewSecret declares the flag name, which must end with -file.
//
// The text of help says the variable, which is nowhere else.
func NewSecret(fs *pflag.FlagSet, name, usage string) *Secret {
	s := new(Secret)
	fs.Var(s, name, usage+" ("+secretVariable(name)+" holds it itself)")
	return s
}

// String returns the path of the file.
//
// It is what prints as the value, so the secret itself must never be returned here.
func (s *Secret) String() string { return s.path }

// Type is what pflag asks for.
func (s *Secret) Type() string { return "secret" }

// Set takes the path of the file.
func (s *Secret) Set(path string) error {
	s.path = path
	return nil
}

// Given reports whether there is a secret, or a file that should hold one.
func (s *Secret) Given() bool { return s.path != "" || len(s.value) > 0 }

// Read returns the secret, nil when none is given. Line ends after it are no part of it.
//
// The file is read at each call, so that one that was exchanged counts the next time. An
// empty one is an error: it is more likely half written than meant.
func (s *Secret) Read() ([]byte, error) {
	if s.path == "" {
		return s.value, nil
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 {
		return nil, fmt.Errorf("%s is empty", s.path)
	}
	return b, nil
}

// secretVariable returns the variable that holds the secret itself whose file the flag
// names.
func secretVariable(name string) string { return Variable(strings.TrimSuffix(name, fileSuffix)) }

// take takes the secret itself out of the environment, and returns the name of its
// variable when it is there. The flag of the file is called name.
func (s *Secret) take(name string, getenv func(string) string) (origin string, err error) {
	own := secretVariable(name)
	text := getenv(own)
	if text == "" {
		return "", nil
	}
	if getenv(Variable(name)) != "" {
		return "", errors.New(own + " and " + Variable(name) + " are both set: keep one of them")
	}
	s.value = []byte(text)
	return own, nil
}
