package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxVerdictBytes is the length of the longest verdict that DecodeVerdict takes.
//
// Verdicts are some kilobytes; the bound keeps a dispatcher from reading what is none.
const MaxVerdictBytes = 1 << 18

// DecodeVerdict reads one verdict into v, which it resets first. Unknown fields are
// ignored, so that a dispatcher understands the verdicts of later versions; names
// given twice, also in other case, bad UTF-8, anything after the object, and a
// verdict without id or action are refused. Nothing of v aliases p. The error is a
// *DecodeError, and then what v holds is not to be relied on.
// It is what guards and consumers of the verdict topic call, and is slower than Decode where there
// is more to read than that a call is allowed: such verdicts are few.
func DecodeVerdict(p []byte, v *Verdict) error {
	*v = Verdict{}
	if len(p) > MaxVerdictBytes {
		return &DecodeError{Code: CodeTooLong, Offset: MaxVerdictBytes,
			Reason: fmt.Sprintf("the verdict has %d bytes; want at most %d", len(p), MaxVerdictBytes)}
	}
	if v.decodePlain(p) {
		return nil
	}
	return v.decodeAny(p)
}

// decodeAny is DecodeVerdict for all that decodePlain leaves.
func (v *Verdict) decodeAny(p []byte) error {
	*v = Verdict{}
	// The text is read twice: by the scanner for what encoding/json lets pass, and by
	// encoding/json for the fields.
	s := scanner{p: p, anyCase: true}
	if c := s.peek(); c != '{' {
		s.unexpected(c, "an object")
		return s.err
	}
	if !s.skip() || !s.end() {
		return s.err
	}
	if err := json.Unmarshal(p, v); err != nil {
		return unmarshalFault(err)
	}
	switch {
	case v.ID == "":
		return &DecodeError{Code: CodeMissingField, Field: "id", Offset: len(p), Reason: "every verdict needs it"}
	case v.Action == "":
		return &DecodeError{Code: CodeMissingField, Field: "action", Offset: len(p), Reason: "every verdict needs it"}
	}
	return nil
}

// unmarshalFault says in our words what encoding/json found wrong with a text that is JSON.
//
// Its offset is -1 when the fault has no place, as of a time that cannot be read.
func unmarshalFault(err error) *DecodeError {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &DecodeError{Code: CodeWrongType, Field: t.Field, Offset: int(t.Offset), Reason: "want " + t.Type.String() + ", not " + t.Value}
	}
	return &DecodeError{Code: CodeInvalidValue, Offset: -1, Reason: err.Error()}
}

// UnmarshalText reads an RFC 3339 time with offset from 1970 to 9999.
func (t *RFC3339) UnmarshalText(text []byte) error {
	at, ok := ParseStamp(string(text))
	if !ok {
		return fmt.Errorf("time %q: want RFC 3339 from 1970 to 9999, for example 2026-11-20T14:00:00.250Z", cut(string(text)))
	}
	*t = RFC3339(at)
	return nil
}
