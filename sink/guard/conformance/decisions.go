package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Decision is a row about one decision by active orders, as far as weir plays it.
type Decision struct {
	Name   string           `json:"name"`
	Orders []map[string]any `json:"orders"`
	Call   map[string]any   `json:"call"`
	Want   map[string]any   `json:"want"`
}

// decided is when decisions are made, by the times of their orders.
var decided = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

// Decisions returns the decisions that a weir makes as well.
func Decisions() (list []Decision, err error) {
	rows, err := Rows()
	for _, row := range rows {
		if dialogue, local := row.Kind(); dialogue || local {
			continue
		}
		var d Decision
		if err := row.Decode(&d); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, err
}

// figures are the members of a decision that an answer of weir has as well. The others are a guard's own: where it has
// the decision from, and what it advises.
var figures = []string{"action", "reason", "limit", "observed", "retry_after_s", "message", "agent_message", "verdict_id"}

// Decide has a weir make a decision by each transport. Its limits have to be off.
func (w *Weir) Decide(t testing.TB, d *Decision, ways ...Transport) {
	t.Helper()
	p := &player{TB: t, Weir: w}
	byHand := make(map[string]bool)
	for i, order := range d.Orders {
		if order["by_hand"] == nil {
			w.Give(p.verdict(order, i))
			continue
		}
		scope := scopeOf(order["scope"])
		switch word, _ := order["by_hand"].(map[string]any); order["action"] {
		case "allow":
			p.release(scope)
			delete(byHand, scope)
		default:
			p.stop(scope, word)
			byHand[scope] = true
		}
	}
	for n, url := range w.URLs {
		for _, way := range ways {
			p.prefix = fmt.Sprintf("%s-%s-%d-", strings.ReplaceAll(d.Name, " ", "-"), way.Name(), n)
			got := way.Check(t, url, []Check{{Call: d.Call, Line: p.identified(EventOf(d.Call))}})[0]
			p.compare(fmt.Sprintf("%s, by %s to member %d", d.Name, way.Name(), n), d.Want, got, len(byHand) > 0)
		}
	}
	for scope := range byHand {
		p.release(scope)
	}
	for i, order := range d.Orders {
		if order["by_hand"] == nil && order["action"] != "allow" {
			cleared := map[string]any{"id": order["id"], "revision": 1_000_000.0, "mode": "enforce", "scope": order["scope"], "action": "allow", "reason_code": order["reason_code"]}
			w.Give(p.verdict(cleared, i))
		}
	}
}

// compare compares the figures of a decision. The id of an order by hand is made by weir.
func (p *player) compare(at string, want, got map[string]any, byHand bool) {
	p.Helper()
	for _, name := range figures {
		want, got := want[name], got[name]
		switch {
		case name == "verdict_id" && byHand:
		case name == "retry_after_s" && want != nil && p.Runs:
			if s, ok := got.(float64); !ok || s <= 0 || s > want.(float64) {
				p.Errorf("%s: %s is %v, want at most %v", at, name, got, want)
			}
		case want != got:
			p.Errorf("%s: %s is %v, want %v", at, name, got, want)
		}
	}
}

// verdict is an order as it is in the log, with its times moved to now.
func (p *player) verdict(order map[string]any, n int) string {
	p.Helper()
	v := make(map[string]any, len(order)+4)
	maps.Copy(v, order)
	if v["revision"] == nil {
		v["revision"] = n + 1
	}
	v["time"] = p.Now().UTC().Format(time.RFC3339Nano)
	if text, ok := v["expires_at"].(string); ok {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			p.Fatal(err)
		}
		v["expires_at"] = p.Now().Add(at.Sub(decided)).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	text, err := json.Marshal(v)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// scopeOf is a scope as operators write it.
func scopeOf(scope any) string {
	s, _ := scope.(map[string]any)
	if s["kind"] == "all" {
		return "all"
	}
	return fmt.Sprintf("%v:%v", s["kind"], s["id"])
}

// stop gives an order about a scope.
func (p *player) stop(scope string, word map[string]any) {
	p.Helper()
	body := map[string]any{"scope": scope, "reason": word["reason"], "by": word["by"]}
	for _, name := range []string{"within", "except"} {
		if list, ok := word[name].([]any); ok {
			var scopes []string
			for _, s := range list {
				scopes = append(scopes, scopeOf(s))
			}
			body[name] = scopes
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		p.Fatal(err)
	}
	p.order(http.MethodPost, "/v1/orders", string(text))
	p.settle(scope, true)
}

// release takes back the orders about a scope.
func (p *player) release(scope string) {
	p.Helper()
	for _, id := range p.active(p.URLs[0], scope) {
		p.order(http.MethodDelete, "/v1/orders/"+url.PathEscape(id), `{"reason":"r","by":"ann"}`)
	}
	p.settle(scope, false)
}

// settle waits until all members know whether there is an order about a scope: the one that was asked knows it first.
func (p *player) settle(scope string, active bool) {
	p.Helper()
	for _, url := range p.URLs {
		p.wait(func() (string, bool) {
			return fmt.Sprintf("%s has not heard of the order about %s", url, scope), len(p.active(url, scope)) > 0 == active
		})
	}
}

// active are the ids of the orders about a scope that a member holds.
func (p *player) active(member, scope string) (ids []string) {
	p.Helper()
	var list struct {
		Orders []struct {
			ID     string `json:"id"`
			Scope  string `json:"scope"`
			Active bool   `json:"active"`
		} `json:"orders"`
	}
	status, text := p.send(member, http.MethodGet, "/v1/orders", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		p.Fatalf("GET /v1/orders: %d %s: %v", status, text, err)
	}
	for _, o := range list.Orders {
		if o.Active && o.Scope == scope {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// order sends an order to the first member.
func (p *player) order(method, path, body string) {
	p.Helper()
	if status, text := p.send(p.URLs[0], method, path, body); status >= 300 {
		p.Fatalf("%s %s %s: %d %s", method, path, body, status, text)
	}
}
