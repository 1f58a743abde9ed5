// Package inspect is the web page for flows and the queries that only the page needs. It reads nothing by itself and
// keeps nothing: events and limits are handed to it.
package inspect
