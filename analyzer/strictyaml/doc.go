// Package strictyaml reads YAML with the line and column of each node and reports all errors at once. A file has at
// most MaxSize bytes of UTF-8.
package strictyaml
