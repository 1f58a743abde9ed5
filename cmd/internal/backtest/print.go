package backtest

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	texttemplate "text/template"
	"unicode"

	"github.com/dustin/go-humanize"

	"weir/analyzer"
	"weir/cmd/internal/costs"
	"weir/events"
)

//go:embed report.html
var page string

//go:embed report.md
var sheet string

// Document is what the reports for a person are made of.
//
// The templates read it, and weir backtest prints from it. Other is nil without other
// limits.
type Document struct {
	Title string
	// What was read, as it was named.
	Sources []string
	*Report
	Against     string // the name of the other limits; empty for none
	Other       *Report
	Differences []Difference
}

// functions are what both templates may call. What they return is escaped by the page's
// template, but for plot, which writes markup itself.
var functions = map[string]any{
	"amount": amount,
	"share": func(n, of int64) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
	},
	"n":          grouped,
	"value":      value,
	"threshold":  threshold,
	"same":       func(v int64, of *int64) bool { return of != nil && v == *of },
	"thresholds": thresholds,
	"reached":    reached,
	"spoke": func(list []RuleReport) []RuleReport {
		return having(list, func(r *RuleReport) bool { return r.spoke() })
	},
	"silent": func(list []RuleReport) []RuleReport {
		return having(list, func(r *RuleReport) bool { return !r.spoke() })
	},
	"more":       func(n, of int) int { return max(0, of-n) },
	"past":       func(stop *int64, value int64) bool { return stop != nil && value >= *stop },
	"spent":      func(s costs.Spent) string { return strings.TrimSuffix(costs.Text(s), " (price unknown)") }, // said once, above the tables
	"firstNear":  func(n int, s []Near) []Near { return s[:min(n, len(s))] },
	"first":      func(n int, s []Stop) []Stop { return s[:min(n, len(s))] },
	"firstDiff":  func(n int, s []Difference) []Difference { return s[:min(n, len(s))] },
	"join":       func(s []string) string { return strings.Join(s, ", ") },
	"sources":    sources,
	"about":      about,
	"cell":       cell,
	"code":       code,
	"seen":       seen,
	"plot":       plot,
	"cost":       costs.Text,
	"assumption": func() string { return costs.SavedAssumption },
	"list": func(title string, lines []costs.Line) any {
		return struct {
			Title string
			Lines []costs.Line
		}{title, lines}
	},
}

// sources names what was read, or the first of it.
//
// names is not changed: it belongs to who made the document.
func sources(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(slices.Clip(names[:most]), "and "+humanize.Comma(int64(more))+" more")
	}
	return strings.Join(names, ", ")
}

// about is what a rule measures, "" for a name that is no rule's.
func about(rule string) string {
	if r, ok := analyzer.RowNamed(rule); ok {
		return r.About
	}
	return ""
}

// reached are the thresholds that say something: up to the first that no flow reaches, and
// the one in force.
func reached(r RuleReport) (out []Other) {
	for _, o := range r.At {
		if past := len(out) > 0 && out[len(out)-1].Flows == 0; !past || r.Stop != nil && o.Stop <= *r.Stop {
			out = append(out, o)
		}
	}
	return out
}

// spoke reports whether the rule warned of a flow first, or stopped it first.
func (r *RuleReport) spoke() bool { return r.Warned+r.Stopped > 0 }

// having are the rules that measured anything and are wanted, those that stopped most first.
func having(list []RuleReport, wanted func(*RuleReport) bool) (out []RuleReport) {
	for i := range list {
		if list[i].Measured > 0 && wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	slices.SortStableFunc(out, func(a, b RuleReport) int {
		return cmp.Or(cmp.Compare(b.Stopped, a.Stopped), cmp.Compare(b.Warned, a.Warned))
	})
	return out
}

// thresholds says in words at which values the rule speaks.
func thresholds(r RuleReport) string {
	switch {
	case r.Warn == nil && r.Stop == nil:
		return "Off"
	case r.Warn == nil:
		return "Stops at " + amount(r.Unit, *r.Stop)
	case r.Stop == nil:
		return "Warns at " + amount(r.Unit, *r.Warn) + ", never stops"
	}
	return "Warns at " + value(r.Unit, *r.Warn) + ", stops at " + amount(r.Unit, *r.Stop)
}

// grouped is a whole number of any kind with a comma after every three digits.
func grouped(n any) string {
	switch n := n.(type) {
	case int:
		return humanize.Comma(int64(n))
	case int64:
		return humanize.Comma(n)
	}
	return fmt.Sprint(n)
}

// value is an amount without its unit.
func value(u events.Unit, v int64) string {
	if u == events.UnitUSD {
		return amount(u, v)
	}
	return humanize.Comma(v)
}

// threshold is one with its unit, or that there is none.
func threshold(u events.Unit, v *int64) string {
	if v == nil {
		return "off"
	}
	return amount(u, *v)
}

// HTML writes the report as one page that needs nothing else: no script, no font, no
// picture from anywhere.
//
// An error may leave a part of it written, so it is given a buffer.
func (d *Document) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(functions).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, d)
}

// Markdown writes the report for a pull request.
//
// Nothing is written unless all of it could be made.
func (d *Document) Markdown(w io.Writer) error {
	t, err := texttemplate.New("report").Funcs(functions).Parse(sheet)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// levels are how a bar is drawn in one character: a blank for nothing, then eight heights.
var levels = []rune(" ▁▂▃▄▅▆▇█")

// Spark draws bars in one line; those that have any flow are seen.
//
// Heights are in proportion to the highest; a single flow among thousands has the lowest
// mark and not a blank.
func Spark(list []Bar) string {
	most := 0
	for _, b := range list {
		most = max(most, b.Flows)
	}
	var out strings.Builder
	for _, b := range list {
		level := 0
		if b.Flows > 0 {
			level = 1 + b.Flows*(len(levels)-2)/most
		}
		out.WriteRune(levels[level])
	}
	return out.String()
}

// plot draws the values of a rule as a picture: bars in the scale of square roots, for a
// few flows near the threshold matter more than many far below, and lines at the
// thresholds.
func plot(r RuleReport) template.HTML {
	const width, height, foot = 360, 90, 16
	if len(r.Bars) == 0 {
		return ""
	}
	most := 0
	for _, b := range r.Bars {
		most = max(most, b.Flows)
	}
	top := r.Bars[len(r.Bars)-1].To
	x := func(v int64) float64 { return float64(v) / float64(top) * width }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img" aria-label="how many flows measured how much">`, width, height+foot)
	for _, b := range r.Bars {
		h := root(b.Flows) / root(most) * height
		class := "bar"
		if r.Stop != nil && b.From >= *r.Stop {
			class = "bar over"
		}
		fmt.Fprintf(&s, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s to %s: %d flows</title></rect>`,
			class, x(b.From)+1, height-h, x(b.To-b.From)-2, h, amount(r.Unit, b.From), amount(r.Unit, b.To-1), b.Flows)
	}
	for i, v := range [...]*int64{r.Warn, r.Stop} {
		if v != nil && *v <= top {
			fmt.Fprintf(&s, `<line class="%s" x1="%.1f" x2="%.1f" y1="0" y2="%d"/>`, [...]string{"warn", "stop"}[i], x(*v), x(*v), height)
		}
	}
	fmt.Fprintf(&s, `<text x="0" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%s</text></svg>`, height+foot-3, width, height+foot-3, amount(r.Unit, top))
	return template.HTML(s.String()) // numbers and words of ours alone
}

// root makes bars of a few flows visible beside those of many.
func root(n int) float64 { return math.Sqrt(float64(n)) }

// seen makes the invisible characters in a foreign text visible. Such characters end lines, turn the
// direction of text or move a terminal, and reports are read in terminals, too.
func seen(s string) string {
	hidden := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// plain escapes the characters that have a meaning in Markdown. Otherwise the name of a flow could put
// a picture from a foreign server into a comment on a pull request, or mention people. Mentions are
// looked for after entities are replaced, but not in code.
var plain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "&#96;", `\`, "&#92;", "[", "&#91;", "]", "&#93;", "!", "&#33;", "*", "&#42;", "_", "&#95;", "~", "&#126;",
	"://", "&#58;//", "www.", "www&#46;", "@", "<code>@</code>", "#", "<code>#</code>")

// cell is a text of others in a cell of a table in Markdown.
func cell(s string) string { return plain.Replace(seen(s)) }

// code is an id of others in a cell of a table in Markdown. Nothing but the end of code means
// anything in it, and what ends a cell.
func code(s string) string {
	if s = seen(s); strings.ContainsAny(s, "`\\") {
		return "<code>" + plain.Replace(s) + "</code>"
	}
	return "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
}
