// Package prom exposes metrics and holds the dashboards, alerts and their tests.
//
// No label ever holds an id, an agent, a tool or a text of an error. Every value comes
// from a list that is closed, so the number of series does not depend on what is sent.
package prom
