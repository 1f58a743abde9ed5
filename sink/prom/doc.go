// Package prom exposes metrics and holds the dashboards, alerts and their tests.
//
// No label ever holds an id or a text of an error. Most values come from closed lists. Names that
// senders choose (services, agents, tools, tenants, accounts of budgets) are bounded in number by
// MostSpenders and MostAccounts, so the number of series does not depend on what is sent.
package prom
