// Package costs adds up calls, tokens and money of flows, and what was spent after a warning or a stop. Each
// figure names the source of its price: the log, a price file, or unknown.
package costs
