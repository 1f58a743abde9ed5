// Package api serves HTTP: routes, intake, queries, operator orders, verdict streams, gateways, the inspector, health
// and metrics. An event is in the log before its sender gets the response. Every rejection is a problem (RFC 9457)
// that states how to continue. The fold never waits for clients, for any number of them and however slowly they read.
//
// It depends on neither Kafka nor files: its interfaces declare what it needs of the program.
package api
