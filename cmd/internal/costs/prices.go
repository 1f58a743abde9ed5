package costs

import (
	"encoding/json"
	"fmt"
	"os"
)

// Prices are what a million tokens of a model cost, in millionths of a US dollar, by the name of
// the model as logs have it.
type Prices map[string]Price

// Price is that of one model.
//
// Figures are whole: a millionth of a dollar for a million tokens is finer than any price
// list.
type Price struct{ Input, Output int64 }

// ReadPrices reads a price file in the form that LiteLLM publishes: an object with a member for
// each model, whose input_cost_per_token and output_cost_per_token are US dollars. Models without
// both are left out.
func ReadPrices(name string) (Prices, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := Prices{}
	for model, raw := range file {
		var x struct {
			In  *float64 `json:"input_cost_per_token"`
			Out *float64 `json:"output_cost_per_token"`
		}
		if json.Unmarshal(raw, &x) != nil || x.In == nil || x.Out == nil { // models of images and sounds are priced otherwise
			continue
		}
		// Most prices of a million tokens lie above it, and are not taken for that of one. NaN
		// passes no comparison.
		if !(*x.In >= 0 && *x.In <= 1 && *x.Out >= 0 && *x.Out <= 1) {
			return nil, fmt.Errorf("%s: %s: a token costs between 0 and 1 US dollar, not %v and %v", name, model, *x.In, *x.Out)
		}
		p[model] = Price{int64(*x.In*1e12 + 0.5), int64(*x.Out*1e12 + 0.5)}
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("%s: no model has input_cost_per_token and output_cost_per_token, in US dollars", name)
	}
	return p, nil
}

// of returns what the tokens of a model cost, in millionths of a dollar; false when that is not known.
//
// The name alone goes first, then with the provider before it, as the lists of LiteLLM have
// many. A nil Prices knows none.
func (p Prices) of(provider, model string, in, out int64) (int64, bool) {
	price, ok := p[model]
	if !ok {
		price, ok = p[provider+"/"+model]
	}
	if !ok || model == "" {
		return 0, false
	}
	return int64((float64(in)*float64(price.Input) + float64(out)*float64(price.Output)) / 1e6), true
}
