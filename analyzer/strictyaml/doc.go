// Package strictyaml reads YAML of which every node is known by line and column, and
// refuses with all that is wrong at once: what the files share that people write for
// weir. A file has at most MaxSize bytes of UTF-8.
package strictyaml
