package check

import (
	"bytes"

	"weir/events"
)

// Answer is the answer to a check, whatever it is: the call may be made, it may not, or weir did not
// judge it. Its members are in each answer of /v1/check. An answer with a status of 400 and more is a
// problem (RFC 9457) as well, and a refusal repeats the figures of its verdict as members of that.
type Answer struct {
	Verdict *events.Verdict `json:"verdict"` // null when weir did not judge the call
	Allowed bool            `json:"allowed"` // the call may be made, and is counted
	ID      string          `json:"id"`      // of the check; "" where none was read
	Type    string          `json:"type"`    // urn:weir:reason:..., or about:blank
	Title   string          `json:"title"`
	Status  int             `json:"status"` // as in HTTP
	Detail  string          `json:"detail"` // for people
	Hint    string          `json:"hint,omitempty"`
}

// detail is how much of its verdict a refusal has. Both keep the shape of Answer.
type detail uint8

const (
	whole detail = iota
	// brief is for answers that go out with many others: the verdict has its required members alone.
	// What guards use is in the members of the problem. A whole one is three times as long, and
	// MostAsks of them would not fit into one write.
	brief
)

// of returns the verdict as a refusal shows it. The given one is not changed.
func (d detail) of(v *events.Verdict) *events.Verdict {
	if d == whole {
		return v
	}
	return &events.Verdict{ID: v.ID, Time: v.Time, Revision: v.Revision, Mode: v.Mode, Scope: v.Scope, Action: v.Action, ControlledCutoff: v.ControlledCutoff,
		Reason: v.Reason}
}

// appendAllowance appends the answer that allows the call of ev. The verdict comes first, where
// guards look for it.
func (h *Handler) appendAllowance(dst []byte, ev *events.Event, v *events.Verdict) []byte {
	dst = append(v.AppendJSON(append(dst, `{"verdict":`...)), `,"allowed":true,"id":`...)
	dst = appendText(dst, ev.ID)
	if v.Message == "" {
		dst = append(dst, `,"type":"about:blank","title":"OK","status":200,"detail":""`...)
	} else {
		dst = append(dst, `,"type":"urn:weir:reason:`...)
		dst = append(append(append(dst, v.Reason...), `","title":`...), text(title(v.Reason))...)
		dst = append(append(dst, `,"status":200,"detail":`...), text(v.Message)...)
	}
	if h.Hint != nil {
		if hint := h.Hint(ev); hint != "" {
			dst = appendText(append(dst, `,"hint":`...), hint)
		}
	}
	return append(dst, '}')
}

// appendRefusal appends what a problem lacks to be an Answer.
func appendRefusal(problem []byte, ev *events.Event, v *events.Verdict) []byte {
	dst := bytes.TrimSuffix(bytes.TrimSpace(problem), []byte{'}'})
	dst = append(dst, `,"allowed":false,"id":`...)
	dst = append(appendText(dst, ev.ID), `,"verdict":`...)
	return append(v.AppendJSON(dst), "}\n"...)
}

// appendText appends a text as JSON. Most ids are plain.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(dst, text(s)...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// text is a text as JSON.
func text(s string) []byte { return bytes.TrimSpace(encode(s)) }
