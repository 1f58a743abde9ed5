// Package inspect is the inspector: a page for people who look at flows, which the
// program serves from itself, and the answers that only the page asks for: the timeline of
// one flow, made by folding its events again; the rule book, played with other limits;
// and two limits compared on one log. It reads nothing by itself and keeps nothing:
// events and limits are handed to it.
package inspect
