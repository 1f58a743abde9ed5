// Package recordbatch reads and writes record batches, format 2: the form in which Kafka
// keeps records and in which Fetch and Produce carry them.
//
// The Decoder takes memory as its Limit allows, whatever the batch says of itself. The
// Encoder makes the bytes once, so that a batch that is sent again is the same batch.
package recordbatch
