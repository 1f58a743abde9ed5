package prices

import (
	"math"
	"time"

	"weir/events"
)

// Cache is what a provider's prompt cache keeps of a conversation after a model call.
type Cache struct {
	Tokens int64 // that the next call reads from it
	// Dearer is by how many millionths of a US dollar the next call costs more once the cache has
	// forgotten them; 0 where the model has no price.
	Dearer int64
	Until  events.Stamp // when the cache forgets them unless they are read again
}

// How long caches keep what was read last, where a price does not say. Anthropic and Bedrock document
// five minutes, OpenAI five to ten minutes without use. Other providers promise no time, so nothing is
// said of them.
const (
	anthropicCache = 5 * time.Minute
	openAICache    = 10 * time.Minute
)

// cacheTTL is how long the provider's cache keeps what it read last; 0 where it is not known.
func (t Table) cacheTTL(ev *events.Event) time.Duration {
	if p, ok := t.Find(ev.Provider, ev.Model); ok && p.CacheTTL > 0 {
		return time.Duration(p.CacheTTL) * time.Second
	}
	switch {
	case from(ev, "anthropic", "bedrock", "claude"):
		return anthropicCache
	case from(ev, "openai", "azure", "gpt-"):
		return openAICache
	}
	return 0
}

// CacheAfter returns what the cache keeps after the model call of the event, at the given time. It counts
// what the event reports as read from the cache or written to it, and nothing else.
func (t Table) CacheAfter(ev *events.Event, at events.Stamp) (c Cache) {
	n := split(ev)
	kept, ttl := n.CacheRead+n.CacheWrite+n.CacheHour, t.cacheTTL(ev)
	if n.CacheHour > 0 {
		ttl = max(ttl, time.Hour)
	}
	if kept <= 0 || ttl == 0 {
		return c
	}
	c = Cache{Tokens: min(kept, math.MaxUint32), Until: at.Add(ttl)}
	if p, ok := t.Find(ev.Provider, ev.Model); ok {
		c.Dearer = min(p.again(c.Tokens, n.CacheHour > 0), math.MaxUint32)
	}
	return c
}

// again is how much more tokens cost that are written to the cache again, for an hour or for the usual time,
// than those that it gives.
func (p *Price) again(tokens int64, hour bool) int64 {
	written := Tokens{CacheWrite: tokens}
	if hour {
		written = Tokens{CacheHour: tokens}
	}
	return max(0, p.cost(written)-p.cost(Tokens{CacheRead: tokens}))
}

// Rewritten returns how many tokens of the cache the model call of the event, at the given time, had to
// write again because the cache had forgotten them, and how many millionths of a US dollar that cost;
// 0 for a call in time.
func (c *Cache) Rewritten(t Table, ev *events.Event, at events.Stamp) (tokens, cost int64) {
	if c.Tokens == 0 || at <= c.Until {
		return 0, 0
	}
	n := split(ev)
	// What the cache still gave was not forgotten, and a shorter context needs fewer.
	tokens = max(0, min(c.Tokens-n.CacheRead, n.Context()-n.CacheRead))
	if p, ok := t.Find(ev.Provider, ev.Model); ok {
		cost = p.again(tokens, n.CacheHour > 0)
	}
	return tokens, cost
}
