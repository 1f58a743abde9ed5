package costs

import (
	"cmp"
	"slices"
	"strings"

	"weir/analyzer/prices"
	"weir/events"
)

// UnpricedModel is a model of which some calls are missing in the money, because neither a cost nor a price is
// known. Name is Others for those that the list has no room for, and "" where the events name no model.
type UnpricedModel struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
	Calls    int64  `json:"calls"`  // of the model
	Tokens   int64  `json:"tokens"` // those of Spent.Unpriced; 0 where its calls report none
}

// Advice says how a model gets a price, for beside a list of models that have none.
const Advice = "add the model under prices: in the limits file, in US dollars for a million tokens, as in prices: {MODEL: {input: 3, output: 15}}; or give --prices FILE in LiteLLM's form"

// Bounds of names of models, which are what senders write.
const (
	MostUnpriced  = 1_000        // models of one log
	flowUnpriced  = 32           // models of one flow of a tree
	shownUnpriced = 100          // models of one list
	modelName     = events.MaxID // bytes of a name
)

// Unpriced adds up by model what has no price. It is for one goroutine.
type Unpriced struct {
	most   int
	models map[modelKey]*withoutPrice
}

// modelKey is a model of a provider.
type modelKey struct{ provider, model string }

// withoutPrice counts events of one model. Some sources report the usage of a request with another event, so
// those two are not added up.
type withoutPrice struct {
	requests, silent, others int64 // requests with usage and without, and other events with usage
	tokens                   int64
}

// NewUnpriced returns an Unpriced with room for that number of models.
func NewUnpriced(most int) *Unpriced {
	return &Unpriced{most: most, models: make(map[modelKey]*withoutPrice)}
}

// Note enters an event that spent s; t is the table that priced it.
func (u *Unpriced) Note(t prices.Table, ev *events.Event, s Spent) {
	request := ev.Kind == events.LLMCall
	// A request that failed has no usage to report. One that names no model may have it in another event.
	silent := request && s.Tokens == 0 && !ev.Usage.Known && ev.Status != events.StatusError && ev.Model != ""
	if s.Unpriced <= 0 && !silent {
		return
	}
	if silent {
		if _, known := t.Find(ev.Provider, ev.Model); known {
			return
		}
	}
	n := u.of(modelKey{clip(ev.Provider), clip(ev.Model)})
	switch {
	case silent:
		n.silent++
	case request:
		n.requests++
	default:
		n.others++
	}
	n.tokens += s.Unpriced
}

// of returns the counts of a model, those of Others where there is no room.
func (u *Unpriced) of(key modelKey) *withoutPrice {
	n := u.models[key]
	if n == nil && len(u.models) >= u.most {
		key = modelKey{model: Others}
		n = u.models[key]
	}
	if n == nil {
		n = new(withoutPrice)
		u.models[modelKey{strings.Clone(key.provider), strings.Clone(key.model)}] = n // both may alias what is read
	}
	return n
}

// Plus adds what o has counted.
func (u *Unpriced) Plus(o *Unpriced) {
	for key, b := range o.models {
		a := u.of(key)
		a.requests, a.silent, a.others, a.tokens = a.requests+b.requests, a.silent+b.silent, a.others+b.others, a.tokens+b.tokens
	}
}

// List returns the models with the most tokens first, and then those with the most calls. What the list has no
// room for is in its last line.
func (u *Unpriced) List() []UnpricedModel {
	list := []UnpricedModel{}
	rest := UnpricedModel{Model: Others}
	for key, n := range u.models {
		m := UnpricedModel{key.provider, key.model, n.requests + max(n.silent, n.others), n.tokens}
		if key.model == Others {
			rest.Calls, rest.Tokens = rest.Calls+m.Calls, rest.Tokens+m.Tokens
			continue
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b UnpricedModel) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Provider, b.Provider))
	})
	if len(list) > shownUnpriced {
		for _, m := range list[shownUnpriced:] {
			rest.Calls, rest.Tokens = rest.Calls+m.Calls, rest.Tokens+m.Tokens
		}
		list = list[:shownUnpriced]
	}
	if rest.Calls > 0 {
		list = append(list, rest)
	}
	return list
}

// clip bounds a name.
func clip(name string) string {
	if len(name) <= modelName {
		return name
	}
	return strings.ToValidUTF8(name[:modelName], "") + "…" // half a character is left out
}
