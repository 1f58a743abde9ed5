// Package recordbatch reads and writes Kafka's record batches (format 2).
//
// The Decoder takes memory as its Limit allows, whatever the batch says of itself. The
// Encoder makes the bytes once, so that a batch that is sent again is the same batch.
package recordbatch
