package cli

import (
	"slices"
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
	// Names of columns that may be left out, and which of the columns are.
	secondary []string
	left      []bool
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
	if !t.settled {
		t.settled = true
		t.fit()
	}
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

// Secondary names columns that are left out where a terminal has no room for all, the first one
// first.
func (t *Table) Secondary(columns ...string) *Table {
	t.secondary = columns
	return t
}

// What fit leaves of a column of texts, and of the last column, in characters.
const (
	ampleColumn = 32
	leastColumn = 12
	leastLast   = 24
)

// fit makes rows as wide as the terminal. Long texts are cut to an ample width, then columns are
// left out, then texts are cut further. Numbers are never cut.
func (t *Table) fit() {
	t.left = make([]bool, len(t.widths))
	if t.env.Width == 0 || len(t.rows) == 0 {
		return
	}
	right := make([]bool, len(t.widths))
	for i, c := range t.rows[0] {
		right[i] = c.Right
	}
	t.shrink(right, ampleColumn)
	for _, name := range t.secondary {
		if t.needs() <= t.env.Width {
			return
		}
		if i := slices.Index(t.columns, name); i >= 0 {
			t.left[i] = true
		}
	}
	t.shrink(right, leastColumn)
}

// needs is how wide a row is whose last cell is cut as far as it may be.
func (t *Table) needs() int {
	n, last := 0, len(t.widths)-1
	for i, w := range t.widths {
		switch {
		case t.left[i]:
			continue
		case i == last:
			w = min(w, leastLast)
		}
		n += w + len(gap)
	}
	return n - len(gap)
}

// shrink takes from the widest column of texts until the row fits or all of them have no more than
// least characters. Heads stay whole.
func (t *Table) shrink(right []bool, least int) {
	for over := t.needs() - t.env.Width; over > 0; over-- {
		widest := -1
		for i, w := range t.widths[:len(t.widths)-1] {
			floor := least
			if i < len(t.columns) {
				floor = max(least, utf8.RuneCountInString(t.columns[i]))
			}
			if !right[i] && !t.left[i] && w > floor && (widest < 0 || w > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		t.widths[widest]--
	}
}

// gap is between two columns.
const gap = "  "

// line writes one row. On a terminal the last cell is cut to what fits.
//
// Widths are counted in characters, by which wide ones of East Asia stand out. What is not
// cut stays whole when a program reads it, since Width is 0 then.
func (t *Table) line(b *strings.Builder, cells []Cell) {
	used := 0
	for i, c := range cells {
		if i < len(t.left) && t.left[i] {
			continue
		}
		if used > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		text, last := c.Text, i == len(cells)-1
		if t.env.Width > 0 && !last && !c.Right {
			text = Cut(text, max(1, t.widths[i]))
		}
		if room := t.env.Width - used; last && t.env.Width > 0 && room >= 20 {
			text = Cut(text, room)
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

// Cut shortens s to n characters, of which the last says that there was more.
func Cut(s string, n int) string {
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
