// Package api serves HTTP: routes, intake, queries, operator orders, verdict streams, gateways, the inspector, health
// and metrics. It promises that an event is in the log before its sender is told so, that whatever is refused is
// refused as a problem (RFC 9457) that says how to go on, and that no client, however many there are and however slow
// they read, is waited for by the fold.
//
// It knows neither Kafka nor files: what it needs of the program it says in interfaces.
package api
