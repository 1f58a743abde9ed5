package main

import (
	"errors"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
)

// refusals are the records that could not be read, of which the first are told one by
// one.
type refusals struct {
	n     int64
	first []logs.BadRecord
}

const toldRefusals = 3

func (r *refusals) add(b logs.BadRecord) {
	r.n++
	if len(r.first) < toldRefusals {
		r.first = append(r.first, b)
	}
}

func (r *refusals) tell(env *cli.Env) {
	for _, b := range r.first {
		env.Notice("%s: not read: %s", b.Place(), b.Reason)
	}
	if n := r.n - int64(len(r.first)); n > 0 {
		env.Notice("and %s more", cli.Count(n, "record"))
	}
}

// open opens a file, or standard input.
func open(env *cli.Env, name string) (*logs.Input, error) {
	if name == logs.Stdin {
		return logs.From(name, env.In)
	}
	in, err := logs.Open(name)
	if errors.Is(err, logs.ErrFolder) {
		err = cli.Usage("%w", err).Advise("name the files in it: %s/*", name)
	}
	return in, err
}

// recognize finds the format of an input, by the name of a format or by its beginning.
func recognize(in *logs.Input, format string) error {
	err := in.Recognize(format)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, logs.ErrEmpty):
		return cli.Failure("%w", err).Advise("was it written yet?")
	case format == "":
		return cli.Failure("%w", err).Advise("weir events describe says what each format is")
	}
	return err
}
