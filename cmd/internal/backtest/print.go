package backtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	texttemplate "text/template"

	"weir/analyzer"
	"weir/events"
)

//go:embed report.html
var page string

//go:embed report.md
var sheet string

// Document is what the reports for a person are made of.
type Document struct {
	Title   string
	Sources []string
	*Report
	Against     string // the name of the other limits; empty for none
	Other       *Report
	Differences []Difference
}

var functions = map[string]any{
	"amount":  amount,
	"percent": func(v float64) string { return fmt.Sprintf("%.2g %%", 100*v) },
	"share": func(n, of int64) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
	},
	"int64":     func(n int) int64 { return int64(n) },
	"value":     func(u events.Unit, v *int64) string { return threshold(u, v) },
	"spark":     Spark,
	"first":     func(n int, s []Stop) []Stop { return s[:min(n, len(s))] },
	"firstDiff": func(n int, s []Difference) []Difference { return s[:min(n, len(s))] },
	"join":      func(s []string) string { return strings.Join(s, ", ") },
	"about":     about,
	"cell":      func(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) },
	"plot":      plot,
}

func about(rule string) string {
	if r, ok := analyzer.RowNamed(rule); ok {
		return r.About
	}
	return ""
}

func threshold(u events.Unit, v *int64) string {
	if v == nil {
		return "off"
	}
	return amount(u, *v)
}

// HTML writes the report as one page that needs nothing else: no script, no font, no
// picture from anywhere.
func (d *Document) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(functions).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, d)
}

// Markdown writes the report for a pull request.
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

var levels = []rune(" ▁▂▃▄▅▆▇█")

// Spark draws bars in one line; those that have any flow are seen.
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

func root(n int) float64 { return math.Sqrt(float64(n)) }
