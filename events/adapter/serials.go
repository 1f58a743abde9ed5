package adapter

import "bytes"

// serials are what coding agents number the results of their shells by: Gemini CLI and Qwen
// Code by processes, Copilot CLI by shells.
var serials = [...][]byte{[]byte("Process Group PGID: "), []byte("Background PIDs: "), []byte("<shellId: ")}

// WithoutSerials returns the result of a tool without the numbers that its program counts
// shells and processes by: with them no two results would be the same. The text itself is
// left as it is.
func WithoutSerials(text []byte) []byte {
	for _, s := range serials {
		var out []byte // a copy of the text up to kept
		for from, kept := 0, 0; ; {
			n := bytes.Index(text[from:], s)
			if n < 0 {
				if kept > 0 {
					text = append(out, text[kept:]...)
				}
				break
			}
			from += n + len(s)
			end := from
			// Lists of such numbers are taken as one.
			for end < len(text) && (text[end]-'0' <= 9 || end > from && (text[end] == ',' || text[end] == ' ')) {
				end++
			}
			if end > from {
				out = append(out, text[kept:from]...)
				from, kept = end, end
			}
		}
	}
	return text
}
