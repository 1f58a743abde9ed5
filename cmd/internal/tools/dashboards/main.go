// Command dashboards writes the dashboards of weir for Grafana into a folder. They are built by
// Grafana's own SDK, so that their schema is right where no Grafana can be had. It is a module of its
// own: weir itself does not need the SDK.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	files, err := build()
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// board is one dashboard. Variables are those beside data source, job and instance.
type board struct {
	uid, title, about string
	variables         []string
	of                string // the metric that names jobs and instances; "" for that of weir itself
	rows              []row
}

// row is panels under a title.
type row struct {
	title  string
	panels []panel
}

// panel is one panel, w of 24 wide and h high; 8 for none.
type panel struct {
	kind, title, about, unit string
	w, h                     uint32
	min, max                 *float64
	whole                    bool     // no decimals
	words                    []string // that stand for 0, 1 and so on
	stack, trend             bool
	colors                   []dashboard.Threshold
	link, linked             string // a page of the inspector, and what it is
	queries                  []query
}

// query is one query of a panel.
type query struct {
	expr, legend, format string
	instant, exemplar    bool
}

// selection is what @ stands for in expressions.
const selection = `job=~"$job", instance=~"$instance"`

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

func at(v float64) *float64 { return &v }

// build returns the files by name.
func build() (map[string][]byte, error) {
	out := map[string][]byte{}
	for i := range boards {
		b := &boards[i]
		d, err := b.build()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.uid, err)
		}
		text, err := json.MarshalIndent(d, "", " ")
		if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(b.uid, "weir-")+".json"] = append(text, '\n')
	}
	return out, nil
}

func (b *board) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(b.title).Uid(b.uid).Description(b.about).Tags([]string{"weir"}).Version(1).
		Refresh("30s").Time("now-1h", "now").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Inspector").Type(dashboard.DashboardLinkTypeLink).Url("${inspector}").Icon("external link").TargetBlank(true)).
		Link(dashboard.NewDashboardLinkBuilder("weir").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"weir"}).AsDropdown(true).KeepTime(true).IncludeVars(true).Icon("external link"))
	b.vary(d)
	if b.of == "" {
		b.marks(d)
	}
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for i := range b.rows {
		d.WithRow(dashboard.NewRowBuilder(b.rows[i].title).Id(next()))
		for k := range b.rows[i].panels {
			p, err := b.rows[i].panels[k].build(next())
			if err != nil {
				return dashboard.Dashboard{}, fmt.Errorf("%s: %w", b.rows[i].panels[k].title, err)
			}
			d.WithPanel(built{p})
		}
	}
	return d.Build()
}

// marks adds marks at new limits and new releases of weir.
func (b *board) marks(d *dashboard.DashboardBuilder) {
	mark(d, "Limits read", "blue", `changes(weir_limits_last_reload_success_timestamp_seconds{@}[1m]) > 0`, "Limits of {{instance}}")
	mark(d, "Releases", "purple", `count by (version, revision) (weir_build_info{@}) unless count by (version, revision) (weir_build_info{@} offset 5m)`, "weir {{version}}")
}

// built is a panel for a builder that wants a builder.
type built struct{ dashboard.Panel }

func (b built) Build() (dashboard.Panel, error) { return b.Panel, nil }

// vary adds the variables.
func (b *board) vary(d *dashboard.DashboardBuilder) {
	all := dashboard.VariableOption{Text: text("All"), Value: text("$__all")}
	choice := func(name, label, values string) {
		d.WithVariable(dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source).Query(dashboard.StringOrMap{String: cog.ToPtr(values)}).Definition(values).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").Current(all))
	}
	box := func(name, label, value string) {
		d.WithVariable(dashboard.NewTextBoxVariableBuilder(name).Label(label).DefaultValue(dashboard.StringOrMap{String: cog.ToPtr(value)}).
			Current(dashboard.VariableOption{Text: text(value), Value: text(value)}))
	}
	d.WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	of := cmp.Or(b.of, "weir_build_info")
	choice("job", "Job", "label_values("+of+", job)")
	choice("instance", "Instance", "label_values("+of+`{job=~"$job"}, instance)`)
	for _, name := range b.variables {
		if name == "flow" {
			box("flow", "Flow", "")
			d.Link(dashboard.NewDashboardLinkBuilder("This flow in the inspector").Type(dashboard.DashboardLinkTypeLink).Url("${inspector}/ui/flow?id=${flow:percentencode}").
				Icon("external link").TargetBlank(true).Tooltip("The flow whose id stands above"))
			continue
		}
		choice(name, strings.ToUpper(name[:1])+name[1:], "label_values(weir_waste_by_"+name+"_calls_total{"+selection+"}, "+name+")")
	}
	box("inspector", "Inspector", "http://127.0.0.1:8080")
}

func text(s string) dashboard.StringOrArrayOfString {
	return dashboard.StringOrArrayOfString{String: &s}
}

// mark adds marks at times at which the expression has a value.
func mark(d *dashboard.DashboardBuilder, name, color, expr, title string) {
	d.Annotation(dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(source).Enable(true).IconColor(color).
		Expr(strings.ReplaceAll(expr, "@", selection)).Step("60s").TitleFormat(title))
}

// build returns the panel with the id. What all kinds have is entered at the end.
func (p *panel) build(id uint32) (dashboard.Panel, error) {
	out, err := p.shape()
	if err != nil {
		return out, err
	}
	out.Id, out.Title, out.Description, out.Datasource = &id, &p.title, &p.about, &source
	out.GridPos = &dashboard.GridPos{W: p.w, H: cmp.Or(p.h, 8)}
	if out.FieldConfig == nil {
		out.FieldConfig = &dashboard.FieldConfigSource{Overrides: []dashboard.DashboardFieldConfigSourceOverrides{}}
	}
	f := &out.FieldConfig.Defaults
	f.Unit, f.Min, f.Max = &p.unit, cmp.Or(p.min, f.Min), p.max
	if p.whole {
		f.Decimals = at(0)
	}
	if len(p.words) > 0 {
		options := map[string]dashboard.ValueMappingResult{}
		for n, word := range p.words {
			options[strconv.Itoa(n)] = dashboard.ValueMappingResult{Text: &word, Index: cog.ToPtr(int32(n))}
		}
		f.Mappings = []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}}
	}
	if p.colors != nil {
		f.Thresholds = &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: p.colors}
		f.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdThresholds}
	}
	if p.link != "" {
		link, err := dashboard.NewDashboardLinkBuilder(p.linked).Type(dashboard.DashboardLinkTypeLink).Url("${inspector}" + p.link).TargetBlank(true).Build()
		if err != nil {
			return out, err
		}
		f.Links = []dashboard.DashboardLink{link}
	}
	for i, q := range p.queries {
		t := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source).Expr(strings.ReplaceAll(q.expr, "@", selection)).LegendFormat(q.legend)
		if q.instant {
			t.Instant()
		} else {
			t.Range()
		}
		if q.format != "" {
			t.Format(prometheus.PromQueryFormat(q.format))
		}
		if q.exemplar {
			t.Exemplar(true)
		}
		target, err := t.Build()
		if err != nil {
			return out, err
		}
		out.Targets = append(out.Targets, target)
	}
	return out, nil
}

// shape is what only panels of the kind have.
func (p *panel) shape() (dashboard.Panel, error) {
	last := common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})
	switch p.kind {
	case "stat":
		graph := common.BigValueGraphModeNone
		if p.trend {
			graph = common.BigValueGraphModeArea
		}
		return stat.NewPanelBuilder().ReduceOptions(last).ColorMode(common.BigValueColorModeBackground).GraphMode(graph).WideLayout(true).Build()
	case "bargauge":
		return bargauge.NewPanelBuilder().ReduceOptions(last).DisplayMode(common.BarGaugeDisplayModeBasic).Orientation(common.VizOrientationHorizontal).
			ShowUnfilled(true).ValueMode(common.BarGaugeValueModeColor).Min(0).Build()
	case "heatmap":
		return heatmap.NewPanelBuilder().Calculate(false).CellGap(1).ExemplarsColor("rgba(255,0,255,0.7)").ShowLegend().
			Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Steps(64).Exponent(0.5).Fill("dark-orange").Scale(heatmap.HeatmapColorScaleExponential)).
			YAxis(heatmap.NewYAxisConfigBuilder().AxisPlacement(common.AxisPlacementLeft).Unit(p.unit)).Build()
	case "table":
		return table.NewPanelBuilder().ShowHeader(true).CellHeight(common.TableCellHeightSm).Build()
	case "timeseries":
		mode := common.StackingModeNone
		if p.stack {
			mode = common.StackingModeNormal
		}
		return timeseries.NewPanelBuilder().DrawStyle(common.GraphDrawStyleLine).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
			Stacking(common.NewStackingConfigBuilder().Mode(mode).Group("A")).
			Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).Min(0).Build()
	}
	return dashboard.Panel{}, fmt.Errorf("no kind of panel is called %q", p.kind)
}
