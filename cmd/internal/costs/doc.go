// Package costs adds up calls, tokens and money of flows, and what was spent after a warning or a stop. It promises
// that each figure says where its price is from: the log, a price file, or that nobody knows it.
package costs
