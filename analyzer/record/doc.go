// Package record encodes and decodes the states of the fold. It promises that whatever the bytes are, a reader ends:
// the first fault sticks, all that is read after it is zero, and End tells of it once. What stands in a record, and in
// which order, is the business of whoever is kept in it.
package record
