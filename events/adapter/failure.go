package adapter

import "weir/events/adapter/jsonwalk"

// Failed reports whether the result of a tool itself says that the call failed, and returns the
// text of the reason. Many tools answer a model in this way instead of raising. Such a result is
// an object whose status is error, or whose success or ok is false, with a text of the reason.
//
// Frameworks report such a call as successful, and the documentation of some asks for it (Google
// ADK's). A word in the texts of a result is no failure. A status without a reason is none either:
// it may be that of the object that the tool looked at.
func Failed(result []byte) (why []byte, failed bool) {
	c := jsonwalk.New(result)
	if c.Peek() != '{' {
		return nil, false
	}
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); key {
		case "status":
			switch string(c.Text()) {
			case "error", "failed", "failure":
				failed = true
			}
		case "success", "ok":
			failed = c.Peek() == 'f' || failed
			c.Skip()
		case "error_message", "errorMessage", "error", "message", "detail":
			if text := c.Text(); len(why) == 0 {
				why = text
			}
		default:
			c.Skip()
		}
	}
	if !failed || len(why) == 0 || c.Err() != nil {
		return nil, false
	}
	return why, true
}
