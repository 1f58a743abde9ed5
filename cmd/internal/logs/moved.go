package logs

import "weir/events/adapter"

// moved knows where lines that were put in another order stand in the file. It keeps those that were given and not
// yet asked for.
type moved struct {
	from  []adapter.Position
	first int // the number of the line of from[0], as it was given; 0 before the first
}

// give notes where the next line stands in the file.
func (m *moved) give(p adapter.Position) {
	m.first = max(m.first, 1)
	m.from = append(m.from, p)
}

// place returns where a line stands in the file, by its place among those that were given. Places are asked for in
// the order of the lines.
func (m *moved) place(p adapter.Position) adapter.Position {
	n := p.Line - m.first
	if n < 0 || n >= len(m.from) {
		return p // the end
	}
	m.from, m.first = m.from[n:], p.Line
	return m.from[0]
}
