package cli

import (
	"strings"
	"unicode/utf8"
)

// Cell is one cell of a table.
//
// Text may be what others have written: it is quoted before it is printed.
type Cell struct {
	Text  string
	Paint Paint
	Right bool // numbers stand at the right
}

// Paint is what a cell means; on a terminal it is coloured by it.
type Paint uint8

// The paints.
const (
	Plain Paint = iota
	Good
	Caution
	Bad
	Faint
)

var escapes = [...]string{"", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m"}

// Text returns plain cells.
func Text(texts ...string) []Cell {
	out := make([]Cell, len(texts))
	for i, s := range texts {
		out[i].Text = s
	}
	return out
}

// Painted returns s as Out shows it in a colour, if it does.
func (e *Env) Painted(s string, p Paint) string {
	if p == Plain || !e.colour() {
		return s
	}
	return own + escapes[p] + s + own + "\x1b[0m"
}

// heldRows is after how many rows the widths of the columns are settled.
//
// It bounds what is kept of a list, and rows that come later may be wider than their
// column.
const heldRows = 500

// Table prints rows in columns. It holds the first ones back to learn how wide the
// columns are.
//
// It is for one goroutine. After the first Flush rows are printed as they come, by the
// widths that were found until then.
type Table struct {
	env     *Env
	columns []string
	widths  []int
	rows    [][]Cell
	// headed is true when the head was printed, or there is none.
	headed  bool
	settled bool
}

// Table returns a table with these column heads; with none it has no head line.
func (e *Env) Table(columns ...string) *Table {
	t := &Table{env: e, columns: columns, widths: make([]int, len(columns)), headed: len(columns) == 0}
	for i, c := range columns {
		t.widths[i] = utf8.RuneCountInString(c)
	}
	return t
}

// Row adds a row.
//
// The cells are kept until Flush, and their texts are changed to what is printed. Rows may
// have different numbers of cells.
func (t *Table) Row(cells ...Cell) error {
	for len(t.widths) < len(cells) {
		t.widths = append(t.widths, 0)
	}
	for i, c := range cells {
		cells[i].Text = quoted(c.Text)
		c = cells[i]
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Text))
	}
	t.rows = append(t.rows, cells)
	if t.settled || len(t.rows) >= heldRows {
		return t.Flush()
	}
	return nil
}

// Flush prints what was held back. An empty table prints nothing.
func (t *Table) Flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	t.settled = true
	var b strings.Builder
	if !t.headed {
		t.headed = true
		head := make([]Cell, len(t.columns))
		for i, c := range t.columns {
			head[i] = Cell{Text: c, Paint: Faint, Right: i < len(t.rows[0]) && t.rows[0][i].Right}
		}
		t.line(&b, head)
	}
	for _, r := range t.rows {
		t.line(&b, r)
	}
	t.rows = t.rows[:0]
	return write(t.env.Out, b.String())
}

// line writes one row. On a terminal the last cell is cut to what fits.
//
// Widths are counted in characters, by which wide ones of East Asia stand out. What is not
// cut stays whole when a program reads it, since Width is 0 then.
func (t *Table) line(b *strings.Builder, cells []Cell) {
	const gap = "  "
	used := 0
	for i, c := range cells {
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		text, last := c.Text, i == len(cells)-1
		if room := t.env.Width - used; last && t.env.Width > 0 && room >= 20 {
			text = cut(text, room)
		}
		fill := strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(text)))
		if c.Right {
			b.WriteString(fill)
		}
		b.WriteString(t.env.Painted(text, c.Paint))
		if !c.Right && !last {
			b.WriteString(fill)
		}
		used += t.widths[i]
	}
	b.WriteByte('\n')
}

// cut shortens s to n characters, of which the last says that there was more.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}
