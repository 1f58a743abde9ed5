// Package prom shows what weir does to Prometheus: counters that are read when they are
// asked for, histograms that are told of what happens, and beside them the dashboards,
// alerts and configurations that were tried with these names.
//
// No label ever holds an id, an agent, a tool or a text of an error. Every value comes
// from a list that is closed, so the number of series does not depend on what is sent.
package prom
