package events

import (
	"fmt"
	"slices"
)

// Code says in one word why an event or a verdict was refused. The codes are a
// closed list, fit for a metric label and a dead-letter header.
type Code string

// The codes. They are permanent and never reused: dashboards, alerts and whoever reads dead
// letters match them as text.
const (
	CodeSyntax          Code = "syntax"           // not JSON
	CodeTooLong         Code = "too_long"         // more bytes, characters, digits or members than allowed
	CodeTooDeep         Code = "too_deep"         // more than MaxDepth objects and arrays inside each other
	CodeDuplicateField  Code = "duplicate_field"  // a name given twice in one object, also once by its alias
	CodeMisspelledField Code = "misspelled_field" // a known name in other case or with other underscores
	CodeWrongType       Code = "wrong_type"       // a string where a number belongs, and the like
	CodeOutOfRange      Code = "out_of_range"     // a number or a time below or above its bounds
	CodeInvalidValue    Code = "invalid_value"    // not of the list or the form that the field wants
	CodeMissingField    Code = "missing_field"    // a field that the object or the kind cannot do without
	CodeInvalidUTF8     Code = "invalid_utf8"     // bytes that are not UTF-8, or half a surrogate pair
	CodeTrailingData    Code = "trailing_data"    // something after the end of the object
	CodeReservedKind    Code = "reserved_kind"    // a kind that only weir may write
)

// codes are those that Decode and DecodeVerdict give.
var codes = [...]Code{CodeSyntax, CodeTooLong, CodeTooDeep, CodeDuplicateField, CodeMisspelledField, CodeWrongType,
	CodeOutOfRange, CodeInvalidValue, CodeMissingField, CodeInvalidUTF8, CodeTrailingData, CodeReservedKind}

// Codes lists all codes.
func Codes() []Code { return slices.Clone(codes[:]) }

// Codes of records that became dead letters for another reason than what an event or a verdict
// may be. They are no part of Codes, because Decode never gives them; the shell around the
// fold does.
const (
	CodePanic      Code = "panic"      // a fault in weir itself while folding the record
	CodeLimits     Code = "limits"     // a limits.set whose document this weir does not accept
	CodeLost       Code = "lost"       // records that expired before they were read
	CodeCrash      Code = "crash"      // a record at which the process ended again and again
	CodeUnreadable Code = "unreadable" // records that cannot be taken out of their batch
)

// DecodeError says what is wrong with an event or a verdict, where, and how to go on.
// It holds names and at most short pieces of the event, never a whole content, because it ends
// up in logs and dead letters.
type DecodeError struct {
	Code   Code
	Field  string // path of the field, such as tool.args_hash; empty when no field is concerned
	Offset int    // of the byte at which the fault was seen; -1 when the event did not come as bytes
	Reason string // what is wrong and what is wanted instead
}

// Error returns code, field, offset and reason in one line.
// Offset counts bytes from 0 within the one record, not within its file or body.
func (e *DecodeError) Error() string {
	where := ""
	if e.Offset >= 0 {
		where = fmt.Sprintf(" at byte %d", e.Offset)
	}
	if e.Field != "" {
		where += fmt.Sprintf(", field %q", e.Field)
	}
	return fmt.Sprintf("%s%s: %s", e.Code, where, e.Reason)
}
