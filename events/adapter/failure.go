package adapter

import "weir/events/adapter/jsonwalk"

// Failed reports whether the result of a tool says of itself that the call failed, in the way
// in which many tools answer a model instead of raising: an object whose status is error, or
// whose success or ok is false, with a text that says why. That text is returned.
//
// Frameworks tell such a call as one that went well, and the documentation of some asks for
// it (Google ADK's). What a tool merely has in its texts is no failure, and neither is a status
// without a word of what went wrong, which may be that of what the tool looked at.
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
