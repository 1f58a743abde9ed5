package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"weir/analyzer/prices"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
)

// pricesCommand is weir prices. It asks no weir: prices are a part of the program or a file.
func pricesCommand() cli.Command {
	return cli.Command{Name: "prices", Short: "show the prices of models", Commands: []cli.Command{{
		Name: "show", Args: "[MODEL...]", Short: "print what a million tokens of each model cost",
		Long: `Prints the built-in list prices, in US dollars for a million tokens, and their date.
weir uses them if a limit in US dollars is on, events report no cost, and --prices is
not given. Prices of the limits file come first. weir limits show prints the prices that
limits use.

With --prices the file is printed as weir reads it. A price that a file does not list is
that of input or of output. MODEL is a name as logs have it; weir finds it with or without
the date at its end. Prices above a context size are not supported: such tokens cost the
plain price. 1 H is of cache writes that live an hour. BATCH is of requests of a batch,
whose events have usage.batch; the cache and reasoning then cost as much less. The
built-in prices have none of batches.`,
		Examples: []string{"weir prices show", "weir prices show claude-sonnet-4-5-20250929 gpt-5", "weir prices show --prices prices.json -o json"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			file := fs.String("prices", "", "print the prices of this `FILE` in the form of LiteLLM")
			return func(_ context.Context, env *cli.Env, args []string) error { return showPrices(env, *file, args) }
		},
	}}}
}

// modelPrice is the price of a model as programs read it, in US dollars for a million tokens.
type modelPrice struct {
	Model      string  `json:"model"`
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	CacheHour  float64 `json:"cache_write_1h"`
	Reasoning  float64 `json:"reasoning"`

	BatchInput  float64 `json:"batch_input"`
	BatchOutput float64 `json:"batch_output"`
}

// showPrices prints the prices of the file, or the built-in ones; of the models that are named, or of all.
func showPrices(env *cli.Env, file string, models []string) error {
	table := costs.BuiltIn()
	if file != "" {
		var err error
		if table, err = costs.ReadPrices(file); err != nil {
			return cli.Failure("the prices: %w", err)
		}
	}
	shown, err := chosenPrices(table, models)
	if err != nil {
		return err
	}
	usd := func(v float64) cli.Cell { return cli.Cell{Text: strconv.FormatFloat(v, 'f', -1, 64), Right: true} }
	lines := cli.NewLines(env, func(p *modelPrice) []cli.Cell {
		return []cli.Cell{{Text: p.Model}, usd(p.Input), usd(p.Output), usd(p.CacheRead), usd(p.CacheWrite), usd(p.CacheHour), usd(p.Reasoning), usd(p.BatchInput), usd(p.BatchOutput)}
	}, "MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "1 H", "REASONING", "BATCH INPUT", "BATCH OUTPUT").Secondary("BATCH INPUT", "BATCH OUTPUT", "REASONING")
	for i := range shown {
		m := &shown[i]
		in := func(v int64) float64 { return float64(v) / 1e6 }
		if err := lines.Print(&modelPrice{m.Name, in(m.Input), in(m.Output), in(m.CacheRead), in(m.CacheWrite), in(cmp.Or(m.CacheHour, m.CacheWrite)), in(m.Reasoning), in(m.BatchInput), in(m.BatchOutput)}); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if file == "" {
		env.Notice("built-in prices of %s, in US dollars for a million tokens; --prices FILE replaces them", costs.BuiltInDate())
	}
	return nil
}

// chosenPrices returns the prices of the models, each by the name that was asked for.
func chosenPrices(table prices.Table, models []string) (prices.Table, error) {
	if len(models) == 0 {
		return table, nil
	}
	out := slices.Grow(prices.Table(nil), len(models))
	for _, name := range models {
		p, ok := table.Find("", name)
		if !ok {
			return nil, cli.Failure("no price for the model %q", name).Advise("weir prices show lists all; add it under prices: in the limits file")
		}
		out = append(out, prices.Model{Name: name, Price: *p})
	}
	return out, nil
}
