package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"

	"weir/events"
)

// readFields are the fields of a verdict that a guard uses or reports.
var readFields = map[string]bool{"id": true, "revision": true, "mode": true, "scope": true, "action": true, "effective": true, "match": true, "reason_code": true,
	"limit": true, "observed": true, "unit": true, "message": true, "agent_message": true, "expires_at": true, "retry_after_s": true, "correlation_id": true, "by_hand": true}

// readVerdict reads a verdict. Of one that is not wholly what it should be it reads what a
// guard goes by: an order is obeyed also when something else in it is of another form, as the
// guards of other languages do, which read nothing else.
func readVerdict(text []byte) (*events.Verdict, error) {
	v := new(events.Verdict) // a new one each time, since the table keeps it
	err := events.DecodeVerdict(text, v)
	if err == nil || len(text) > events.MaxVerdictBytes {
		return v, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber() // large revisions keep their digits
	var all map[string]any
	// Of a name that is given twice the last counts, and what is no character becomes one that
	// says so.
	if in.Decode(&all) != nil || in.InputOffset() != int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return nil, err
	}
	left, _ := json.Marshal(all["remaining"])
	maps.DeleteFunc(all, func(name string, _ any) bool { return !readFields[name] })
	plain, _ := json.Marshal(all) // it was JSON just now
	if again := events.DecodeVerdict(plain, v); again != nil {
		return nil, errors.Join(again, err)
	}
	v.Remaining = readRemaining(left)
	return v, nil
}

// readAllowance reads the verdict of an answer that lets a call pass.
func readAllowance(body []byte) (*events.Verdict, error) {
	// As weir writes it the verdict comes first.
	if text, rest, ok := cutVerdict(body); ok && onlyOther(rest) {
		if v := new(events.Verdict); events.DecodeVerdict(text, v) == nil {
			return v, nil
		}
	}
	var answer struct{ Verdict json.RawMessage }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	return readVerdict(answer.Verdict)
}

// cutVerdict cuts an answer behind its first member, as far as it is as weir writes it. rest begins
// with the next member; an older weir wrote none.
func cutVerdict(body []byte) (verdict, rest []byte, ok bool) {
	text, ok := bytes.CutPrefix(body, []byte(`{"verdict":`))
	if !ok {
		return nil, nil, false
	}
	// In a text the quotes would be escaped. Behind a member of the verdict itself what is cut off is
	// no verdict, and the caller reads the answer in the other way.
	if end := bytes.Index(text, []byte(`},"allowed":true,`)); end > 0 {
		return text[:end+1], text[end+2:], true
	}
	text, ok = bytes.CutSuffix(text, []byte{'}'})
	return text, []byte{'}'}, ok
}

// onlyOther reports whether the rest of an object is whole and names no second verdict.
func onlyOther(rest []byte) bool {
	var room [512]byte
	return bytes.IndexByte(rest, '\\') < 0 && json.Valid(append(append(room[:0], '{'), rest...)) && !bytes.Contains(bytes.ToLower(rest), []byte("verdict"))
}

// readRemaining reads what an answer says is left. What is of another form says nothing.
func readRemaining(text []byte) (left []events.Remaining) {
	var rows []json.RawMessage
	if json.Unmarshal(text, &rows) != nil {
		return nil
	}
	for _, row := range rows {
		var r events.Remaining
		if json.Unmarshal(row, &r) == nil && r.RuleID != "" {
			left = append(left, r)
		}
	}
	return left
}
