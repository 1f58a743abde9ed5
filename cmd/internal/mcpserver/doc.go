// Package mcpserver serves weir to agents and coding assistants by the Model Context Protocol.
//
// Each tool is one or two requests to the HTTP API of a running weir, so everything is judged,
// logged and authorized there. The server keeps nothing between calls.
package mcpserver
