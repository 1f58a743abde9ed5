package costs

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"weir/analyzer/prices"
)

// listed is what is read of a model in a price file: US dollars per token.
type listed struct {
	Input      *float64 `json:"input_cost_per_token"`
	Output     *float64 `json:"output_cost_per_token"`
	CacheRead  *float64 `json:"cache_read_input_token_cost"`
	CacheWrite *float64 `json:"cache_creation_input_token_cost"`
	CacheHour  *float64 `json:"cache_creation_input_token_cost_above_1hr"`
	Reasoning  *float64 `json:"output_cost_per_reasoning_token"`

	BatchInput  *float64 `json:"input_cost_per_token_batches"`
	BatchOutput *float64 `json:"output_cost_per_token_batches"`
}

// ReadPrices reads a price file in the form that LiteLLM publishes: an object with a member for
// each model, whose input_cost_per_token and output_cost_per_token are US dollars. Models without
// both are left out.
func ReadPrices(name string) (prices.Table, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parsePrices(name, b)
}

// builtIn is the table of prices for limits in US dollars that come without prices, in the form that
// ReadPrices reads, with the day of the prices. It has list prices of models of OpenAI, Anthropic,
// Google, DeepSeek and Amazon Bedrock. Prices of batches and above a context size are not in it.
//
//go:embed builtin.json
var builtIn []byte

// BuiltIn returns the built-in prices. Callers must not change them.
func BuiltIn() prices.Table { return builtInTable().table }

// BuiltInDate returns the day of the built-in prices, such as 2026-11-27.
func BuiltInDate() string { return builtInTable().date }

var builtInTable = sync.OnceValue(func() (t struct {
	table prices.Table
	date  string
}) {
	var head struct{ Date string }
	var err error
	if t.table, err = parsePrices("the built-in prices", builtIn); err == nil {
		err = json.Unmarshal(builtIn, &head)
	}
	if err != nil {
		panic(err) // the file is a part of the program
	}
	t.date = head.Date
	return t
})

// parsePrices reads the text of a price file; name is for errors.
func parsePrices(name string, b []byte) (prices.Table, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var t prices.Table
	for model, raw := range file {
		var x listed
		// Models of images and sounds have other prices.
		if model == "sample_spec" || json.Unmarshal(raw, &x) != nil || x.Input == nil || x.Output == nil {
			continue
		}
		p, err := x.price()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, model, err)
		}
		t = append(t, prices.Model{Name: model, Price: p})
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("%s: no model has input_cost_per_token and output_cost_per_token, in US dollars", name)
	}
	t.Sort()
	return t, nil
}

// price is what a million tokens cost. A price that is not listed is that of input or of output.
func (x *listed) price() (prices.Price, error) {
	p := prices.Plain(0, 0)
	for _, f := range []struct {
		key  string
		usd  *float64
		or   *float64
		into *int64
	}{
		{"input_cost_per_token", x.Input, nil, &p.Input}, {"output_cost_per_token", x.Output, nil, &p.Output},
		{"cache_read_input_token_cost", x.CacheRead, x.Input, &p.CacheRead}, {"cache_creation_input_token_cost", x.CacheWrite, x.Input, &p.CacheWrite},
		{"cache_creation_input_token_cost_above_1hr", x.CacheHour, cmp.Or(x.CacheWrite, x.Input), &p.CacheHour}, {"output_cost_per_reasoning_token", x.Reasoning, x.Output, &p.Reasoning},
		{"input_cost_per_token_batches", x.BatchInput, x.Input, &p.BatchInput}, {"output_cost_per_token_batches", x.BatchOutput, x.Output, &p.BatchOutput},
	} {
		usd := f.usd
		if usd == nil {
			usd = f.or
		}
		// The check refuses prices of a million tokens, most of which are above 1. NaN passes no
		// comparison.
		if !(*usd >= 0 && *usd <= 1) {
			return p, fmt.Errorf("a token costs between 0 and 1 US dollar; %s is %v", f.key, *usd)
		}
		*f.into = int64(*usd*prices.Most + 0.5)
	}
	if p.CacheHour == p.CacheWrite {
		p.CacheHour = 0 // as prices say that have none of their own
	}
	return p, nil
}
