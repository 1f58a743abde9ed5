// Package record encodes and decodes the states of the fold. Whatever the bytes are, a reader terminates. The first
// fault sticks, all later reads return zero, and End reports the fault once. Each type that is kept in a record
// defines its content and order.
package record
