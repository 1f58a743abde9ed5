package wire

import "weir/events/adapter/jsonwalk"

// ToolResult is the result of a call of a tool in MCP.
type ToolResult struct {
	Text   []byte // of its blocks, else its structured content; nil if it has neither
	Failed bool   // the tool ran and reports an error
	Asks   bool   // the server needs input before it can answer
}

// ReadToolResult reads a result. Anything but an object is no result of MCP and is empty.
func ReadToolResult(result []byte) (r ToolResult) {
	var structured []byte
	c := jsonwalk.New(result)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "content":
			r.Text = append([]byte{}, c.Texts()...) // a list without texts is an empty result
		case "structuredContent":
			structured = c.Raw()
		case "isError":
			r.Failed = c.Bool()
		case "resultType":
			r.Asks = string(c.Text()) == "input_required"
		}
	}
	// Structured content repeats the text where a server gives both.
	if len(r.Text) == 0 && structured != nil {
		r.Text = structured
	}
	return r
}
